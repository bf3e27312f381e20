import * as z from 'zod/mini';
import type { Item, Part } from '../../../protocol/item.ts';
import { DEEPEST_JSON, measureJson, omitUndefined } from '../../../protocol/json.ts';
import { labelsSchema } from '../../../protocol/listing/label.ts';
import { ApiError } from '../../../server/error-envelope.ts';
import type { PostedMessage } from '../ui-message.ts';

/** The deepest nesting that a body may have: a tool result inside a part of a message. */
const MOST_DEPTH = DEEPEST_JSON + 10;

const text = (most: number) => z.string().check(z.minLength(1), z.maxLength(most));

const messageSchema = z.object({
  id: text(500),
  role: z.enum(['user', 'assistant', 'system']),
  parts: z.array(z.looseObject({ type: text(200) })).check(z.maxLength(10_000)),
});

const bodySchema = z.object({
  id: text(256).check(z.refine(isChatId)),
  messages: z.array(messageSchema).check(z.minLength(1), z.maxLength(10_000)),
  trigger: z.optional(z.enum(['submit-message', 'regenerate-message'])),
  messageId: z.optional(z.nullable(text(500))),
});

/** The body that `useChat` posts. Its history is not trusted: only decisions, results and the last message are read. */
export type ChatBody = z.infer<typeof bodySchema>;

/** Whether a text can be the id of a chat, that is, a valid label value. */
export function isChatId(id: string): boolean {
  return labelsSchema.safeParse({ chat: id }).success;
}

export async function readChatBody(request: Request, mostBytes: number): Promise<ChatBody> {
  const parsed = bodySchema.safeParse(parse(await readText(request, mostBytes)));
  if (parsed.success) return parsed.data;
  const path = parsed.error.issues[0]?.path.join('.') ?? '';
  throw new ApiError(
    'input-invalid',
    `Expected what useChat posts: { id, messages, trigger }. Wrong or missing: ${path.slice(0, 200) || 'the body'}.`,
  );
}

async function readText(request: Request, mostBytes: number): Promise<string> {
  const decoder = new TextDecoder();
  let bytes = 0;
  let body = '';
  for await (const chunk of request.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > mostBytes) throw new ApiError('too-large', `The body has more than ${mostBytes} bytes.`);
    body += decoder.decode(chunk, { stream: true });
  }
  return body + decoder.decode();
}

function parse(body: string): unknown {
  if (body === '')
    throw new ApiError(
      'input-invalid',
      'The body is empty. Mount the handler before a body parser such as express.json().',
    );
  if (measureJson(body).depth > MOST_DEPTH)
    throw new ApiError('input-invalid', `The body is nested deeper than ${MOST_DEPTH} levels.`);
  try {
    return JSON.parse(body);
  } catch {
    throw new ApiError('input-invalid', 'The body is not JSON.');
  }
}

const filePart = z.object({
  type: z.literal('file'),
  url: z.string().check(z.regex(/^(data:|https?:\/\/)/)),
  mediaType: text(200),
  filename: z.optional(text(500)),
});
const textPart = z.object({ type: z.literal('text'), text: z.string() });

export function toItem({ id, parts }: PostedMessage): Item {
  const content = parts.flatMap((part): Part[] => {
    if (part.type === 'text') return [textOf(part)];
    return part.type === 'file' ? [fileOf(part)] : [];
  });
  if (content.length === 0) throw new ApiError('input-invalid', 'The message has no text and no file.');
  return { type: 'message', role: 'user', id, content };
}

function textOf(part: unknown): Part {
  const parsed = textPart.safeParse(part);
  if (parsed.success) return parsed.data;
  throw new ApiError('input-invalid', 'A text part has no text.');
}

function fileOf(part: unknown): Part {
  const parsed = filePart.safeParse(part);
  if (!parsed.success)
    throw new ApiError('input-invalid', 'A file part needs a media type and a data:, http: or https: URL.');
  const { url, mediaType, filename } = parsed.data;
  if (mediaType.startsWith('image/')) return { type: 'image', url };
  return { type: 'file', url, mediaType, ...omitUndefined({ name: filename }) };
}
