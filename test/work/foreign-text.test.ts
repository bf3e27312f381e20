import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { userContent } from '../../adapters/anthropic/messages.ts';
import { StreamedBlocks } from '../../adapters/anthropic/turn.ts';
import { newSuffix, ReasoningDetails } from '../../adapters/chat/turn.ts';
import { decodeResponse } from '../../adapters/grpc/vllm-messages.ts';
import { HarmonyReply, pieceOf } from '../../adapters/harmony/completions.ts';
import { loadEncoding } from '../../adapters/harmony/encoding.ts';
import { promptText, TOKENS_BY_TEXT, typescriptType } from '../../adapters/harmony/render.ts';
import {
  errorFromBody,
  errorFromResponse,
  errorFromThrown,
  HttpFailure,
} from '../../adapters/http/provider-errors.ts';
import { LineScanner } from '../../adapters/http/read-sse.ts';
import { readDataURL } from '../../adapters/turn/content.ts';
import { TagScanner } from '../../adapters/turn/raw-text.ts';
import { parseArguments } from '../../adapters/turn/tool-calls.ts';
import { TokenTexts } from '../../adapters/vllm/model-files.ts';
import { readTaggedCall, TaggedReply } from '../../adapters/vllm/tagged-reply.ts';
import { formatSafeJson, formatValue, shortenCell, showSafely } from '../../cli/render/format.ts';
import { recordedTools } from '../../engine/replay/record-run.ts';
import { checkOutput } from '../../engine/services/answer-check.ts';
import { makeIdsUnique } from '../../engine/services/qualify-calls.ts';
import { codeSpan } from '../../examples/steward/code-span.ts';
import { readBlocks } from '../../examples/steward/markdown-blocks.ts';
import type { AnswerContext } from '../../protocol/guardrail.ts';
import type { Item } from '../../protocol/item.ts';
import { isTooDeep, type JsonValue } from '../../protocol/json.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import { formatJUnit } from '../../regress/junit.ts';
import { formatMarkdown } from '../../regress/markdown.ts';
import { type RegressReport, ReportBuilder } from '../../regress/report.ts';
import { citationFilter, numberCitations } from '../../text/citations.ts';
import { hideHtmlComments } from '../../text/hide-html-comments.ts';
import type { TextFilter } from '../../text/text-filter.ts';
import { keepLast } from '../../text/trim-transcript.ts';
import { describeHttpFailure } from '../../tools/mcp/http-server.ts';
import { readResult } from '../../tools/mcp/read-result.ts';
import { maskSecrets } from '../../tools/mcp/redact-secrets.ts';
import { readMarkdown } from '../../visualizer/page/render/read-markdown.ts';
import { makeNote, NEW_REFUND } from '../support/regress/played-runs.ts';
import { randomCases, sampled } from '../support/sample.ts';
import { countWork } from '../support/work/count-work.ts';

const CONTEXT = {
  provider: 'p',
  model: 'm',
  keyVariable: 'K',
  baseURLVariable: 'U',
  baseURL: 'http://provider.invalid/v1',
  secrets: ['conformance-key', 'aaaa'],
};
const ENV = { KEY: 'aaaaaa', OTHER: 'secret-of-six' };
const redact = (text: string) => maskSecrets(text, ENV);
const ANSWER: AnswerContext = {
  runId: 'r',
  runContext: undefined,
  results: [],
  transcript: [],
  wholeOutput: async ({ output }) => output as JsonValue,
  signal: new AbortController().signal,
  countUsage: () => {},
};
const REQUEST: ModelRequest = { transcript: [], tools: [], toolChoice: 'auto', settings: {} };
const TOKEN_TEXTS = new TokenTexts([
  { text: '<|end|>', isSpecial: true },
  { text: 'aaaa', isSpecial: true },
]);
const encoding = await loadEncoding(CONTEXT);
const ENDING = { finish: 'stop', usage: null, model: 'm' };
const signal = new AbortController().signal;

/** Every function that reads text from a provider, a server, a model or a document. */
const READERS: Record<string, (text: string) => unknown> = {
  'an error body': text => errorFromResponse(new HttpFailure(400, new Headers(), text), CONTEXT, 0),
  'a JSON error body': text => errorFromBody({ error: { message: text, code: text } }, CONTEXT),
  'a thrown error': text => errorFromThrown(new Error(text), CONTEXT, signal, 0),
  "an MCP server's error": text => redact(text),
  "an MCP server's HTTP error": text =>
    describeHttpFailure(Object.assign(new Error(text), { data: { status: 500, text } }), redact),
  "an MCP server's error result": text => {
    try {
      readResult('t', { content: [{ type: 'text', text }], isError: true }, redact);
    } catch {
      return;
    }
  },
  'arguments of a call': text => parseArguments(text),
  'a JSON answer': text =>
    void checkOutput(
      { format: { name: 'o', schema: {} }, validate: value => ({ valid: true, value }) },
      `\`\`\`\n${text}`,
    ),
  'the depth of a JSON text': text => isTooDeep(text),
  'an unknown tool name': text =>
    recordedTools({ error: `Not run: There is no tool "${text}". The tools are: ${text}.` }),
  'a text without HTML comments': text => pushAll(hideHtmlComments(), text),
  'a streamed text with citations': text => pushAll(citationFilter([], { sources: () => [] }), text + text),
  'an answer with citations': text => numberCitations({ sources: () => [] })(text + text, ANSWER),
  'a reply in the Harmony format': text => readReply(text),
  'a header in the Harmony format': text => readReply(`<|channel|>${text}<|message|>${text}`),
  'a prompt in the Harmony format, as token ids': text => encoding.encode([{ text }]),
  'token ids in the Harmony encoding': text => encoding.decoder().push([...Buffer.from(text)]),
  'a reply with tags': text => readTagged(text),
  'a call in a tag': text => readTaggedCall(`{"name": "${text}", "arguments": ${text}`),
  'a text for a chat template': text => TOKEN_TEXTS.breakUp(text),
  'a message of a gRPC server': text => {
    try {
      decodeResponse(Buffer.from(text));
    } catch {
      return;
    }
  },
  'a prompt in the Harmony format': text => promptText([{ text }]),
  'the schema of a function': text =>
    typescriptType({
      type: 'object',
      properties: { [text]: { description: text, enum: [text] }, a: { oneOf: [{ description: text }] } },
    }),
  'a line of a stream': text => new LineScanner().push(text, []),
  'a text that is sent back': text => newSuffix(text, `${text}1`),
  'a data URL': text => readDataURL(`data:${text}`),
  'the URL of a file': text => userContent([{ type: 'file', url: `data:${text}`, name: text }]),
  'a text on a terminal': text => [showSafely(text), shortenCell(text, 80)],
  'a value on a terminal': text => [formatValue({ text }), formatSafeJson({ text })],
  'a report in Markdown': text => formatMarkdown(reportOf(text), [text]),
  'a report in JUnit': text => formatJUnit(reportOf(text), text),
  'Markdown blocks': text => readBlocks(text),
  'Markdown code': text => codeSpan(text),
  'Markdown on the page': text => readMarkdown(text),
};

function reportOf(text: string): RegressReport {
  const builder = new ReportBuilder();
  const difference = { ...NEW_REFUND, tool: text, detail: text };
  builder.add('played-1', makeNote(text, { differences: [difference] }));
  builder.add('played-2', makeNote('run-b', { sameness: 'undecidable', why: text }));
  return builder.report({ complete: true });
}

function readTagged(text: string): void {
  const reply = new TaggedReply({ think: true, calls: true, startsInThink: false });
  for (let at = 0; at < text.length; at += 7) reply.push(text.slice(at, at + 7));
  reply.end(REQUEST, ENDING);
}

function readReply(text: string): void {
  const scanner = new TagScanner([...TOKENS_BY_TEXT.keys()]);
  const reply = new HarmonyReply();
  for (let at = 0; at < text.length; at += 7) {
    for (const piece of scanner.push(text.slice(at, at + 7))) reply.push(pieceOf(piece));
  }
  for (const piece of scanner.end()) reply.push(pieceOf(piece));
  reply.end();
  reply.turn(REQUEST, ENDING);
}

/** The text in pieces, as a model sends it. */
function pushAll(filter: TextFilter, text: string): string {
  let shown = '';
  for (let at = 0; at < text.length; at += 7) shown += filter.push(text.slice(at, at + 7));
  return shown + filter.end();
}

const PIECES = [
  ...['<|', '<|end|>', '<think>'],
  ...['sk-', 'sk-a', 'gsk_', 'AIza', 'Bearer ', 'api key: ', 'x-api-key:', '?key=', '://', 'a://b', 'aaaa'],
  ...['violat', 'violate usage', 'context window ', 'previous response ', 'prompt is too long'],
  ...['[doc:', '[doc:a]', '[doc', ']', '<!--', '-->', '--!', '<', '-', ' ', '\n', '\r\n', '\t', '```\n', '`'],
  ...[
    '{"a":',
    '[',
    '"',
    '\\',
    '". The tools are: ',
    '\u001b[',
    '\u001b[1;',
    '\ud800',
    '\udc00',
    '\u202e',
    'é',
  ],
  ...[';', ';base64', ',', '.', '.a?', '#', '~~~', '> ', '- ', 'a', 'bc', '1', '__proto__'],
];
const attacks = fc.record({
  prefix: fc.constantFrom('', ...PIECES),
  unit: fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 3 }).map(parts => parts.join('')),
  suffix: fc.constantFrom('', '!', '\n', 'x', '-->'),
});

/** Each piece repeated many times, followed by a suffix that matches nothing; `npm test` takes a quarter of the pieces. */
const PLAIN = sampled(PIECES, Math.ceil(PIECES.length / 4)).map(unit => ({ prefix: '', unit, suffix: '!' }));

const LENGTH = 400;
/** Work that does not grow with the text: a constant part, and windows of a few hundred characters. */
const SPARE = 4_000;

describe('external text', () => {
  it.each(Object.entries(READERS))(
    '%s does about twice the work for a text of twice the length',
    (_name, read) => {
      fc.assert(
        fc.property(attacks, ({ prefix, unit, suffix }) => {
          const workFor = (length: number) =>
            countWork(() => read(prefix + unit.repeat(Math.ceil(length / unit.length)) + suffix));
          const [short, long] = [workFor(LENGTH), workFor(2 * LENGTH)];
          if (long <= 2.6 * short + SPARE) return;
          // The text may have filled a window of a few hundred characters: then the work grows evenly from here.
          const longest = workFor(4 * LENGTH);
          expect(longest - long).toBeLessThanOrEqual(2.6 * (long - short) + SPARE);
        }),
        { examples: PLAIN.map(attack => [attack]), numRuns: PLAIN.length + randomCases(10) },
      );
    },
  );
});

/** Every function that reads a list from outside, each with a list of `count` elements. */
const COLLECTORS: Record<string, (count: number) => unknown> = {
  'calls with one id': count =>
    makeIdsUnique(
      Array.from({ length: count }, () => ({
        callId: 'c',
        name: 'n',
        arguments: '{}',
        executedBy: 'engine' as const,
      })),
      new Set(),
    ),
  'blocks of a message': count => {
    const blocks = new StreamedBlocks();
    for (let index = 0; index < count; index += 1) {
      blocks.begin({ index }, { type: 'text', id: `b${index}` });
      blocks.at({ index: 0 });
    }
  },
  'details of reasoning': count => {
    const details = new ReasoningDetails();
    for (let index = 0; index < count; index += 1) details.push({ type: 't', index, text: 'x' });
  },
  'citations of unread sources': count =>
    numberCitations({ sources: () => [] })(
      Array.from({ length: count }, (_, index) => `[doc:${index}]`).join(''),
      ANSWER,
    ),
  'turns that share call ids': count => {
    const call = (callId: string): Item => ({ type: 'tool_call', callId, name: 'n', arguments: '{}' });
    const user: Item = { type: 'message', role: 'user', content: [] };
    return keepLast(2)(
      Array.from({ length: count }, (_, index) => [user, call(`a${index}`), call(`a${index >> 1}`)]).flat(),
    );
  },
};

describe('external lists', () => {
  it.each(Object.entries(COLLECTORS))(
    '%s does about twice the work for twice as many elements',
    (_name, take) => {
      const [few, many] = [500, 1_000].map(count => countWork(() => take(count)));
      expect(many).toBeLessThanOrEqual(2.6 * (few ?? 0) + SPARE);
    },
  );
});

describe('the count of work', () => {
  it('is about four times as much for a nested scan', () => {
    const nested = (count: number) =>
      countWork(() => {
        const seen: number[] = [];
        for (let index = 0; index < count; index += 1) if (!seen.includes(index)) seen.push(index);
      });
    expect(nested(1_000)).toBeGreaterThan(3.5 * nested(500));
    const slow = (length: number) => countWork(() => 'a'.repeat(length).replace(/[a-z]+:/g, ''));
    expect(slow(600)).toBeGreaterThan(3.5 * slow(300));
  });
});
