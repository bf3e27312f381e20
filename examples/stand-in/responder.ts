import { type CompletedResponse, completeResponse, type OutputItem } from './events.ts';
import { readHistory } from './history.ts';
import {
  findUnpaired,
  type InputItem,
  invalid,
  parseRequest,
  type RequestProblem,
  type ResponsesRequest,
} from './request.ts';
import { decideTurn } from './rules.ts';
import type { PlannedTurn } from './turn.ts';

type Stored = { previousId: string | null; items: InputItem[] };

/** `remember` stores the response for `previous_response_id`, unless the request has `store: false`. */
type Answered =
  | { problem: RequestProblem }
  | { streamed: boolean; response: CompletedResponse; remember: () => void };

const MAX_STORED = 1000;

/** Returns a function that answers bodies of `POST /v1/responses`, with the history of stored responses. */
export function createResponder(newId: (prefix: string) => string): (body: unknown) => Answered {
  const stored = new Map<string, Stored>();
  return body => {
    const parsed = parseRequest(body);
    if (!parsed.ok) return { problem: parsed.problem };
    const { request, items } = parsed;
    const previousId = request.previous_response_id ?? null;
    const before = collectChain(stored, previousId);
    if (before === null) {
      const message = `Previous response with id '${previousId}' not found.`;
      return { problem: invalid(message, 'previous_response_id', 'previous_response_not_found') };
    }
    const all = [...before, ...items];
    if (all.length === 0)
      return {
        problem: invalid("Missing required parameter: 'input'.", 'input', 'missing_required_parameter'),
      };
    const problem = findUnpaired(all);
    if (problem) return { problem };

    const { tools, toolsOff, forced } = readTools(request);
    const turn = decideTurn({
      instructions: request.instructions ?? '',
      history: readHistory(all),
      tools,
      toolsOff,
    });
    if (forced && turn.calls.length === 0) {
      const message =
        "The stand-in follows fixed rules and cannot make the required call now. Use tool_choice 'auto'.";
      return { problem: invalid(message, 'tool_choice', 'unsupported_value') };
    }
    const calls = request.parallel_tool_calls === false ? turn.calls.slice(0, 1) : turn.calls;
    const output = writeOutput({ ...turn, calls }, newId);
    const usage = countUsage(JSON.stringify([request.instructions, request.tools, all]), output);
    const id = newId('resp');
    const response = completeResponse(request, { id, output, usage });
    const remember = () => {
      if (request.store === false) return;
      stored.set(id, { previousId, items: [...items, ...readOutput(output)] });
      const oldest = stored.keys().next().value;
      if (stored.size > MAX_STORED && oldest !== undefined) stored.delete(oldest);
    };
    return { streamed: request.stream === true, response, remember };
  };
}

function collectChain(stored: ReadonlyMap<string, Stored>, id: string | null): InputItem[] | null {
  const chain: InputItem[][] = [];
  for (let at = id; at !== null; ) {
    const entry = stored.get(at);
    if (!entry) return null;
    chain.push(entry.items);
    at = entry.previousId;
  }
  return chain.reverse().flat();
}

function readTools(request: ResponsesRequest): { tools: string[]; toolsOff: boolean; forced: boolean } {
  const names = (request.tools ?? []).flatMap(tool =>
    tool.type === 'function' && tool.name ? [tool.name] : [],
  );
  const choice = request.tool_choice ?? 'auto';
  if (typeof choice === 'string')
    return { tools: names, toolsOff: choice === 'none', forced: choice === 'required' };
  const allowed = choice.type === 'function' ? [choice.name] : choice.tools.map(tool => tool.name);
  return {
    tools: names.filter(name => allowed.includes(name)),
    toolsOff: false,
    forced: choice.type === 'function' || choice.mode === 'required',
  };
}

function writeOutput({ text, calls }: PlannedTurn, newId: (prefix: string) => string): OutputItem[] {
  const message: OutputItem = {
    id: newId('msg'),
    type: 'message',
    status: 'completed',
    role: 'assistant',
    phase: calls.length > 0 ? 'commentary' : 'final_answer',
    content: [{ type: 'output_text', annotations: [], logprobs: [], text }],
  };
  const items = calls.map(
    (call): OutputItem => ({
      id: newId('fc'),
      type: 'function_call',
      status: 'completed',
      arguments: JSON.stringify(call.input),
      call_id: newId('call'),
      name: call.name,
    }),
  );
  return [message, ...items];
}

function readOutput(output: readonly OutputItem[]): InputItem[] {
  return output.map(item =>
    item.type === 'function_call'
      ? item
      : {
          type: 'message',
          role: 'assistant',
          content: item.content.map(({ type, text }) => ({ type, text })),
        },
  );
}

function countUsage(input: string, output: readonly OutputItem[]) {
  const written = output.map(item =>
    item.type === 'message' ? item.content.map(part => part.text).join('') : item.name + item.arguments,
  );
  const input_tokens = Math.ceil(input.length / 4);
  const output_tokens = Math.ceil(written.join('').length / 4);
  return {
    input_tokens,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input_tokens + output_tokens,
  };
}
