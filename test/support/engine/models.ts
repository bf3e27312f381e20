import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { ModelRequest, ModelTurn, ToolCall } from '../../../protocol/turn.ts';

/** The adapter, and a copy of every request to it. */
export function recordRequests(adapter: ModelAdapter): { model: ModelAdapter; requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  const keep = (request: ModelRequest) => {
    requests.push(structuredClone(request));
    return request;
  };
  const model: ModelAdapter = {
    ...adapter,
    generate: (request, options) => adapter.generate(keep(request), options),
    stream: (request, options) => adapter.stream(keep(request), options),
  };
  return { model, requests };
}

type Turn = Partial<Omit<ModelTurn, 'toolCalls'>> & {
  toolCalls?: { callId: string; name: string; input?: JsonValue | undefined }[];
};

/** A model whose turns are a function of the request and of the number of earlier calls. */
export function answerWith(
  turn: (request: ModelRequest, before: number) => Turn | Promise<Turn>,
  { provider = 'test', model = 'test-1' } = {},
): ModelAdapter {
  let calls = 0;
  const generate = async (request: ModelRequest) => {
    calls += 1;
    return complete(await turn(request, calls - 1), model);
  };
  return {
    provider,
    model,
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: false,
      serverTools: false,
      structuredOutput: 'instructions' as const,
      continuation: true,
      usage: 'unknown' as const,
    },
    generate,
    async *stream(request) {
      yield { type: 'turn', turn: await generate(request) };
    },
  };
}

function complete({ toolCalls = [], text = '', ...given }: Turn, model: string): ModelTurn {
  const made = toolCalls.map(
    ({ callId, name, input = {} }): ToolCall => ({
      callId,
      name,
      input,
      executedBy: 'engine',
      arguments: JSON.stringify(input),
    }),
  );
  const message: Item[] =
    text === '' ? [] : [{ type: 'message', role: 'assistant', content: [{ type: 'text', text }] }];
  return {
    text,
    reasoning: '',
    toolCalls: made,
    finishReason: made.length > 0 ? 'tool_calls' : 'stop',
    usage: null,
    model,
    items: [
      ...message,
      ...made.map(
        ({ callId, name, arguments: text }): Item => ({ type: 'tool_call', callId, name, arguments: text }),
      ),
    ],
    ...given,
  };
}
