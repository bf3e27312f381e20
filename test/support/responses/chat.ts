import type { JsonObject } from '../../../protocol/json.ts';
import type { Failure, Gateway } from './gateway.ts';

type Written = { name: string; arguments: string };
type ToolCall = { id: string; type: string; function: Written; custom?: { name: string; input: string } };
export type Message = {
  role: string;
  content: string | null;
  refusal?: null;
  reasoning_content?: string;
  tool_calls?: ToolCall[];
  annotations?: JsonObject[];
};
export type Completion = JsonObject & {
  id: string;
  choices: { index: number; message: Message; finish_reason: string }[];
};
type Delta = Partial<Message> & { tool_calls?: (Partial<ToolCall> & { index: number })[] };
export type Chunk = JsonObject & {
  choices: { index: number; delta: Delta; finish_reason: string | null }[];
  error?: Failure;
};

/** Posts a chat request. */
export async function postChat(gateway: Gateway, body: object): Promise<Response> {
  return await gateway.app.request('http://127.0.0.1:4100/v1/chat/completions', {
    method: 'POST',
    headers: { host: '127.0.0.1:4100', 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

/** A completion that came whole. Throws when there is none. */
export async function complete(gateway: Gateway, body: object): Promise<Completion> {
  const response = await postChat(gateway, body);
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()) as Completion;
}

/** The chunks of a streamed completion, which ends with `[DONE]`. */
export async function streamChat(gateway: Gateway, body: object): Promise<Chunk[]> {
  const response = await postChat(gateway, { ...body, stream: true });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status} ${text}`);
  return readChunks(text);
}

export function readChunks(text: string): Chunk[] {
  const frames = text.split('\n\n').filter(frame => frame !== '' && !frame.startsWith(':'));
  if (frames.pop() !== 'data: [DONE]') throw new Error(`the stream does not end with [DONE]: ${text}`);
  return frames.map(frame => JSON.parse(frame.slice('data: '.length)) as Chunk);
}

/** The error of a refused or failed request. */
export async function refusedChat(gateway: Gateway, body: object): Promise<Failure & { status: number }> {
  const response = await postChat(gateway, body);
  const { error } = (await response.json()) as { error: Failure };
  return { ...error, status: response.status };
}

/** What a client makes of the chunks alone: the message, why it ended, and the error it ended with. */
export function addUpChunks(chunks: readonly Chunk[]) {
  const message: Message = { role: '', content: null };
  const calls: ToolCall[] = [];
  const finishReasons: string[] = [];
  for (const { choices } of chunks) {
    for (const { delta, finish_reason } of choices ?? []) {
      if (delta.role !== undefined) message.role += delta.role;
      if (delta.content != null) message.content = (message.content ?? '') + delta.content;
      if (delta.reasoning_content !== undefined)
        message.reasoning_content = (message.reasoning_content ?? '') + delta.reasoning_content;
      for (const { index, ...call } of delta.tool_calls ?? []) addCall(calls, index, call);
      if (finish_reason !== null) finishReasons.push(finish_reason);
    }
  }
  if (calls.length > 0) message.tool_calls = calls;
  return { message, finishReasons, error: chunks.at(-1)?.error };
}

/** A call is begun with its id, type and name; each later piece adds to its text. */
function addCall(
  calls: ToolCall[],
  index: number,
  { id = '', type = '', ...piece }: Partial<ToolCall>,
): void {
  const { function: written, custom } = piece;
  const call = calls[index];
  if (call === undefined) calls[index] = { id, type, ...piece } as ToolCall;
  else if (call.custom !== undefined) call.custom.input += custom?.input ?? '';
  else call.function.arguments += written?.arguments ?? '';
}
