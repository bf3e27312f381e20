import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import type { RunHappening } from '../../engine/run/run.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { makeTool } from '../support/engine/agents.ts';
import { recordRequests } from '../support/engine/models.ts';

const MODES = ['live', 'held', 'separate'] as const;
type Mode = (typeof MODES)[number];

const PREAMBLE = 'I look it up.';
const ANSWER = 'It is {"on":"its way"}.';
const usage = { inputTokens: 10, outputTokens: 5 };
const WORK: ScriptedTurn[] = [
  { reasoning: 'Where?', text: PREAMBLE, toolCalls: [{ name: 'look' }], usage },
  { reasoning: 'There.', text: ANSWER, usage },
];

async function observe(mode: Mode, turns = WORK, options: Partial<AgentOptions> = {}, stream = true) {
  const { model, requests } = recordRequests(scripted(turns));
  const host = new ManualHost();
  const agent = createAgent({
    name: 'a',
    host,
    model,
    tools: [makeTool('look', { sideEffect: 'none' })],
    finalAnswer: mode,
    ...options,
  });
  const run = await agent.start('Where is it?', { stream });
  const happenings: RunHappening[] = [];
  const listening = (async () => {
    for await (const happening of run.events()) happenings.push(happening);
  })();
  const settled = await host.settle(run.settled());
  await host.settle(listening);
  return { requests, happenings, settled, run };
}

describe('a script for a separate answer', () => {
  const turn = (text: string): ScriptedTurn => ({ text });
  const textIn = ({ settled }: Observed) => (settled.status === 'finished' ? settled.text : settled);

  test('has the draft and the answer, after its other turns', async () => {
    const looking = { toolCalls: [{ name: 'look' }] };
    const observed = await observe('separate', [looking, turn('Draft.'), turn('Answer.')]);
    expect(textIn(observed)).toBe('Answer.');
    expect(observed.requests.map(({ afterDraft }) => afterDraft ?? false)).toEqual([false, false, true]);
  });

  test('with one entry for both gives its text twice', async () => {
    expect(textIn(await observe('separate', [turn('Both.')]))).toBe('Both.');
  });

  test('has an answer that fails at first', async () => {
    const turns = [turn('Draft.'), { error: { code: 'overloaded', times: 1 } } as const, turn('Answer.')];
    const observed = await observe('separate', turns);
    expect(textIn(observed)).toBe('Answer.');
    expect(observed.requests).toHaveLength(3);
  });

  test('gives the next entry to the closing call of a limit, which follows no draft', async () => {
    const looking = { toolCalls: [{ name: 'look' }] };
    const options = { limits: { turns: 1 }, onLimit: 'answer' } as const;
    expect(textIn(await observe('separate', [looking, turn('Closed.'), turn('Never.')], options))).toBe(
      'Closed.',
    );
  });
});

type Observed = Awaited<ReturnType<typeof observe>>;

function count({ happenings }: Observed, type: RunHappening['type']): string {
  return String(happenings.filter(happening => happening.type === type).length);
}

/** The texts shown, by turn; as chunks where they arrived in chunks. */
function shownIn({ happenings }: Observed, type: 'text.delta' | 'reasoning.delta' = 'text.delta') {
  const turns = new Map<number, string[]>();
  for (const happening of happenings) {
    if (happening.type !== type) continue;
    turns.set(happening.turn, [...(turns.get(happening.turn) ?? []), happening.text]);
  }
  return [...turns.values()];
}

async function describeMode(mode: Mode): Promise<string[]> {
  const work = await observe(mode);
  const noTool = await observe(mode, [{ text: ANSWER }]);
  const schema = await observe(mode, [WORK[0] ?? {}, { text: '{}' }], { output: z.looseObject({}) });
  const shown = shownIn(work);
  const answer = shown.find(pieces => pieces.join('') === ANSWER) ?? [];
  const thoughts = shownIn(work, 'reasoning.delta').length;
  const texts = work.run.context.transcript.filter(
    item => item.type === 'message' && item.role === 'assistant',
  );
  return [
    String(work.requests.length),
    String(noTool.requests.length),
    work.requests.at(-1)?.toolChoice === 'none' ? 'off' : 'on',
    shown.some(pieces => pieces.join('') === PREAMBLE) ? 'shown' : 'not shown',
    answer.length > 1 ? 'as it comes' : 'when it is complete',
    nameTurns(thoughts, work.requests.length),
    (await takesTextBack(mode)) ? 'yes' : 'no',
    count(work, 'text.started'),
    count(work, 'turn.completed'),
    String(texts.length),
    String(schema.requests.filter(({ output }) => output !== undefined).length),
  ];
}

/** Whether readers are asked to discard a text when the model's stream breaks off after it, on the first attempt. */
async function takesTextBack(mode: Mode): Promise<boolean> {
  const inner = scripted([{ text: ANSWER }]);
  const broken = new Set<string>();
  const model: typeof inner = {
    ...inner,
    async *stream(request, options) {
      const asked = JSON.stringify(request);
      for await (const delta of inner.stream(request, options)) {
        if (delta.type === 'turn' && !broken.has(asked)) {
          broken.add(asked);
          yield* scripted([{ error: { code: 'server' } }]).stream(request, options);
        }
        yield delta;
      }
    },
  };
  const observed = await observe(mode, [], { model });
  expect(observed.settled).toMatchObject({ status: 'finished', text: ANSWER });
  return count(observed, 'text.discarded') !== '0';
}

/** What readers see of answers that a guardrail blocks and replaces. */
async function describeChecks(mode: Mode): Promise<string[]> {
  const answers = [{ text: 'Rude.' }, { text: ANSWER }];
  const turns = mode === 'separate' ? answers.flatMap(answer => [answer, answer]) : answers;
  const blocking = await observe(mode, turns, {
    guardrails: {
      answer: text => (text === 'Rude.' ? { type: 'block', reason: 'Be polite.' } : { type: 'pass' }),
    },
  });
  const replacing = await observe(mode, WORK, {
    guardrails: { answer: () => ({ type: 'replace', value: 'Checked.' }) },
  });
  const texts: string[] = [];
  for await (const text of replacing.run.text()) texts.push(text);
  expect(replacing.settled).toMatchObject({ text: 'Checked.' });
  const before = shownIn(blocking).some(pieces => pieces.join('') === 'Rude.');
  const takenBack = count(blocking, 'text.discarded') !== '0';
  return [
    shownIn(replacing).some(pieces => pieces.join('') === ANSWER) ? 'the text' : 'nothing',
    before ? `shown${takenBack ? ', then taken back' : ''}` : 'not shown',
    texts.join('').endsWith('Checked.') ? 'the replacement' : "the model's text",
  ];
}

/** What readers see of an answer under review, of one that is sent back, and of one that is changed. */
async function describeReviews(mode: Mode): Promise<string[]> {
  const answers = [{ text: 'Rude.' }, { text: ANSWER }];
  const turns = mode === 'separate' ? answers.flatMap(answer => [answer, answer]) : answers;
  const observed = await observe(mode, turns, {
    guardrails: { answer: () => ({ type: 'ask', reason: 'every answer' }) },
  });
  const { run, settled } = observed;
  expect(settled).toMatchObject({ status: 'waiting', reviews: [{ answer: 'Rude.' }] });
  const before = shownIn(observed).some(pieces => pieces.join('') === 'Rude.');
  const after: RunHappening[] = [];
  const following = (async () => {
    for await (const happening of run.events({ after: run.durable.seq, follow: true })) {
      after.push(happening);
      if (happening.type === 'review.decided' && happening.decision.type === 'approve') return;
    }
  })();
  await run.reject(run.context.review?.id ?? '');
  await run.settled();
  await run.approve(run.context.review?.id ?? '', { answer: 'Changed.' });
  expect(await run.settled()).toMatchObject({ status: 'finished', text: 'Changed.' });
  await following;
  const takenBack = after.some(({ type }) => type === 'text.discarded');
  const texts: string[] = [];
  for await (const text of run.text()) texts.push(text);
  return [
    before ? 'shown, and not final' : 'not shown',
    before ? `shown${takenBack ? ', then taken back' : ''}` : 'not shown',
    texts.join('').endsWith('Changed.') ? 'the changed text' : "the model's text",
  ];
}

const page = readFileSync(new URL('../../docs/final-answer.md', import.meta.url), 'utf8');
const tables = page
  .split('\n')
  .filter(line => /^\| (?!---)/.test(line))
  .map(line =>
    line
      .split('|')
      .slice(1, -1)
      .map(cell => cell.trim()),
  )
  .filter(([name]) => name !== '');
const CHECKS = 6;
const rows = tables.slice(0, -CHECKS);
const checked = tables.slice(-CHECKS);

describe('docs/final-answer.md', () => {
  test.each(MODES.map((mode, index) => ({ mode, index })))(
    'the column `$mode` is correct',
    async ({ mode, index }) => {
      const observed = await describeMode(mode);
      expect(observed.map((cell, row) => [rows[row]?.[0], cell])).toEqual(
        rows.map(cells => [cells[0], cells[index + 1]]),
      );
    },
  );

  test('the draft is paid for and counted, and the final call does not read it', async () => {
    const { settled, requests, happenings } = await observe('separate');
    expect(settled).toMatchObject({ turns: 3, usage: { inputTokens: 30, outputTokens: 15 } });
    const drafts = happenings.filter(event => event.type === 'turn.completed' && event.text === ANSWER);
    expect(drafts).toHaveLength(2);
    expect(JSON.stringify(requests.at(-1)?.transcript)).not.toContain('on its way');
    expect(requests[2]?.transcript).toEqual(requests[1]?.transcript);
  });

  test('without a turn left, the closing call at the limit answers, and the run is incomplete', async () => {
    const { settled, requests } = await observe('separate', WORK, { limits: { turns: 2 } });
    expect(settled).toMatchObject({ status: 'finished', text: ANSWER, incomplete: { reason: 'turns' } });
    expect(requests.map(({ toolChoice }) => toolChoice)).toEqual(['auto', 'auto', 'none']);
  });

  test.each(MODES)(
    '%s: without streaming the journal is the same, and each text is one chunk',
    async mode => {
      const [streamed, whole] = [await observe(mode), await observe(mode, WORK, {}, false)];
      const journal = ({ happenings }: Observed) =>
        happenings.filter(happening => 'seq' in happening).map(({ type }) => type);
      expect(journal(whole)).toEqual(journal(streamed));
      expect(shownIn(whole)).toEqual(shownIn(streamed).map(pieces => [pieces.join('')]));
      expect(shownIn(whole, 'reasoning.delta')).toEqual([]);
    },
  );

  test.each(MODES)(
    '%s: the closing call at a limit has no tools, and is streamed as it arrives',
    async mode => {
      const observed = await observe(mode, WORK, { limits: { turns: 1 } });
      expect(observed.requests.at(-1)?.toolChoice).toBe('none');
      expect(shownIn(observed).at(-1)?.join('')).toBe(ANSWER);
      expect(shownIn(observed).at(-1)?.length).toBeGreaterThan(1);
    },
  );

  test.each(MODES.map((mode, index) => ({ mode, index })))(
    'the column `$mode` of checked answers is correct',
    async ({ mode, index }) => {
      const observed = [...(await describeChecks(mode)), ...(await describeReviews(mode))];
      expect(observed.map((cell, row) => [checked[row]?.[0], cell])).toEqual(
        checked.map(cells => [cells[0], cells[index + 1]]),
      );
    },
  );
});

function nameTurns(thoughts: number, turns: number): string {
  if (thoughts === 0) return 'of no turn';
  return thoughts === turns ? 'of every turn' : 'of the answer';
}
