import { type UIMessageChunk as RealChunk, type UIMessage as RealMessage, readUIMessageStream } from 'ai';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../agent/index.ts';
import {
  type QuestionData,
  type RunData,
  toUIMessageResponse,
  toUIMessages,
  type UIMessage,
} from '../../../fronts/ai-sdk-ui/index.ts';
import type { PostedMessage } from '../../../fronts/ai-sdk-ui/ui-message.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { hideHtmlComments } from '../../../text/hide-html-comments.ts';
import { clientTool, makeTool } from '../../support/engine/agents.ts';
import { speaker, spokenTurn } from '../../support/engine/speaker.ts';
import { TOOLS, toolsIn } from '../../support/fronts/ai-sdk-ui/chat-page.ts';
import { randomCases } from '../../support/sample.ts';

/** The chunks of a response, as the AI SDK reads them. */
async function chunksOf(response: Response): Promise<RealChunk[]> {
  const lines = (await response.text()).split('\n').filter(line => line.startsWith('data: {'));
  return lines.map(line => JSON.parse(line.slice('data: '.length)));
}

/** Folds chunks with the AI SDK's own code. */
async function foldReally(chunks: readonly RealChunk[]): Promise<RealMessage | undefined> {
  let last: RealMessage | undefined;
  for await (const message of readUIMessageStream({
    stream: ReadableStream.from(chunks),
    terminateOnError: true,
  }))
    last = message;
  return last;
}

const word = fc.constantFrom('', 'a', 'é漢', 'Once upon a time. ');
const call = fc.constantFrom('look', 'fail', 'refund', 'none');
const turn: fc.Arbitrary<ScriptedTurn> = fc.record({
  text: word,
  reasoning: word,
  toolCalls: fc
    .array(call, { maxLength: 3 })
    .map(names => names.map(name => ({ name, arguments: name === 'refund' ? { cents: 1 } : {} }))),
});

describe('the chunks of a run', () => {
  test('add up, in the code of the AI SDK, to the settled value and to what the journal alone gives', async () => {
    const modes = fc.constantFrom<Agent['options']['finalAnswer']>('live', 'held', 'separate');
    await fc.assert(
      fc.asyncProperty(
        fc.array(turn, { maxLength: 3 }),
        fc.boolean(),
        modes,
        async (turns, approves, finalAnswer) => {
          const model = scripted([...turns, { text: 'The end.' }, { text: 'The end.' }]);
          const agent = createAgent({
            name: 'a',
            model,
            tools: TOOLS,
            store: memory(),
            ...(finalAnswer && { finalAnswer }),
          });
          const run = await agent.start('go');
          let message = await foldReally(await chunksOf(toUIMessageResponse(run)));
          let settled = await run.settled();
          for (let left = 5; settled.status === 'waiting' && left > 0; left -= 1) {
            for (const open of settled.approvals)
              await (approves ? run.approve(open.callId) : run.reject(open.callId));
            message = await foldReally(await chunksOf(toUIMessageResponse(run)));
            settled = await run.settled();
          }
          expect((await toUIMessages(run)).at(-1)).toEqual(message);
          if (settled.status !== 'finished' || message === undefined) throw new Error(settled.status);
          const texts = message.parts.flatMap(part => (part.type === 'text' ? [part.text] : []));
          if (settled.text !== '') expect(texts.at(-1)).toBe(settled.text);
          const shown = toolsIn(message).map(part => [part.toolCallId, part.state === 'output-available']);
          const results = settled.results.map(({ callId, isError }) => [callId, !isError]);
          expect(new Map(shown as never)).toEqual(new Map(results as never));
        },
      ),
      { numRuns: randomCases(20) },
    );
  });

  test('add up, whatever a model says and however it streams, to what the journal alone gives', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(spokenTurn, { minLength: 1, maxLength: 3 }), async turns => {
        const host = new ManualHost();
        const agent = createAgent({
          name: 'a',
          host,
          store: memory(),
          limits: { turns: 6 },
          textFilters: [hideHtmlComments],
          model: speaker(turns),
          tools: [
            makeTool('read', { sideEffect: 'none' }),
            makeTool('act', { approval: true }),
            clientTool('ask'),
          ],
        });
        const run = await agent.start('go');
        for (let left = 8; left > 0; left -= 1) {
          const message = await foldReally(await host.settle(chunksOf(toUIMessageResponse(run))));
          expect((await toUIMessages(run)).at(-1)).toEqual(message);
          const settled = await host.settle(run.settled());
          if (settled.status !== 'waiting') break;
          for (const open of settled.open) {
            if (open.kind === 'approval') await run.approve(open);
            if (open.kind === 'result') await run.answer(open, { output: 1 });
          }
        }
      }),
      {
        numRuns: randomCases(20),
        examples: [
          // The entry's text is longer than what was streamed of it, after a reasoning.
          [
            [
              {
                said: [
                  { kind: 'reasoning', pieces: ['Hello'] },
                  { kind: 'text', pieces: [' the end.'] },
                ],
                lies: true,
                breaksAt: undefined,
              },
            ],
          ],
        ],
      },
    );
  });

  test('build messages that have the types of the AI SDK, as do those that a page posts', () => {
    const built: RealMessage<unknown, { run: RunData; question: QuestionData }>[] = [] as UIMessage[];
    const posted: PostedMessage[] = [] as RealMessage[];
    expect([built, built satisfies RealMessage[], posted]).toEqual([[], [], []]);
  });
});
