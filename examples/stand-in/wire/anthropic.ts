import type { JsonObject } from '../../../protocol/json.ts';
import { cut, type Encoder, event, interleave, type Random, SIGNATURE, type WrittenTurn } from './turn.ts';

/** Anthropic's Messages API. At random, a block starts with text or with its full input. */
export const anthropicMessages: Encoder = {
  contentType: 'text/event-stream',
  whole: turn => ({ ...messageOf(turn), content: blocksOf(turn), ...endOf(turn), usage: usageOf(turn) }),
  stream: (turn, random) => streamOf(turn, random).map(data => event(data, String(data.type))),
};

function messageOf({ model }: WrittenTurn): JsonObject {
  return { id: 'msg_1', type: 'message', role: 'assistant', model };
}

function endOf({ finish, calls }: WrittenTurn): JsonObject {
  const ends = {
    stop: calls.length > 0 ? 'tool_use' : 'end_turn',
    length: 'max_tokens',
    content_filter: 'refusal',
  };
  return { stop_reason: ends[finish], stop_sequence: null };
}

/** `input_tokens` excludes what was cached and is now; reasoning tokens are not reported. */
function usageOf({ usage }: WrittenTurn): JsonObject {
  if (usage === null) return {};
  const { input, cached, written = 0 } = usage;
  return {
    input_tokens: input - cached - written,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: cached,
    output_tokens: usage.output,
  };
}

function blocksOf({ reasoning, signature, text, calls, searched }: WrittenTurn): JsonObject[] {
  const blocks: JsonObject[] = [];
  if (reasoning !== '' || signature !== undefined)
    blocks.push({ type: 'thinking', thinking: reasoning, signature: signature ?? SIGNATURE });
  if (searched !== undefined) {
    const id = 'srvtoolu_1';
    blocks.push({ type: 'server_tool_use', id, name: 'web_search', input: { query: searched } });
    blocks.push({ type: 'web_search_tool_result', tool_use_id: id, content: [] });
  }
  if (text !== '') blocks.push({ type: 'text', text });
  for (const [index, call] of calls.entries()) {
    const input = JSON.parse(call.arguments);
    blocks.push({ type: 'tool_use', id: call.id ?? `toolu_${index}`, name: call.name, input });
  }
  return blocks;
}

function streamOf(turn: WrittenTurn, random: Random): JsonObject[] {
  const blocks = blocksOf(turn);
  const lanes = blocks.map((block, index) => laneOf(block, index, turn, blocks.length, random));
  const ahead = blocks.length - turn.calls.length;
  const { output_tokens: _, ...prompt } = usageOf(turn);
  const usage = turn.usage === null ? {} : { ...prompt, output_tokens: 1 };
  const message = { ...messageOf(turn), content: [], stop_reason: null, stop_sequence: null, usage };
  return [
    { type: 'message_start', message },
    { type: 'ping' },
    ...lanes.slice(0, ahead).flat(),
    ...interleave(lanes.slice(ahead), random),
    { type: 'message_delta', delta: endOf(turn), usage: endUsage(turn) },
    { type: 'message_stop' },
  ];
}

function endUsage({ usage }: WrittenTurn): JsonObject {
  return usage === null ? {} : { output_tokens: usage.output };
}

function laneOf(
  block: JsonObject,
  index: number,
  { calls }: WrittenTurn,
  count: number,
  random: Random,
): JsonObject[] {
  const start = (content_block: JsonObject) => ({ type: 'content_block_start', index, content_block });
  const delta = (part: JsonObject) => ({ type: 'content_block_delta', index, delta: part });
  const stop = { type: 'content_block_stop', index };
  const json = (text: string) =>
    cut(text, random).map(partial_json => delta({ type: 'input_json_delta', partial_json }));
  switch (block.type) {
    case 'thinking': {
      const pieces = cut(String(block.thinking), random);
      return [
        start({ type: 'thinking', thinking: '', signature: '' }),
        ...pieces.map(text => delta({ type: 'thinking_delta', thinking: text })),
        delta({ type: 'signature_delta', signature: block.signature ?? '' }),
        stop,
      ];
    }
    case 'text': {
      const pieces = cut(String(block.text), random);
      const first = random() < 0.1 ? (pieces.shift() ?? '') : '';
      return [
        start({ type: 'text', text: first }),
        ...pieces.map(text => delta({ type: 'text_delta', text })),
        stop,
      ];
    }
    case 'tool_use': {
      const call = calls[index - (count - calls.length)];
      if (call?.arguments !== '{}' && random() < 0.1) return [start(block), stop];
      return [start({ ...block, input: {} }), ...json(call?.arguments ?? ''), stop];
    }
    case 'server_tool_use':
      return [start({ ...block, input: {} }), ...json(JSON.stringify(block.input)), stop];
    default:
      return [start(block), stop];
  }
}
