import type * as z from 'zod';
import { measureJson } from '../protocol/measure-json.ts';
import { ApiError } from './error-envelope.ts';

export type BodyLimits = {
  /** Default 1 MiB. */
  maxBytes: number;
  /** How deep arrays and objects may be nested. Default 64. */
  maxDepth: number;
  /** Members and elements of a whole body. Default 100 000. */
  maxValues: number;
};

export const BODY_LIMITS: BodyLimits = { maxBytes: 1024 * 1024, maxDepth: 64, maxValues: 100_000 };

/**
 * The request's JSON body, checked; no body at all counts as `{}`. Nothing beyond a limit is held in
 * memory. Throws an `ApiError`: `unsupported-media-type`, `too-large`,
 * `input-invalid`, or `request-aborted` where the client left.
 */
export async function readBody<Schema extends z.ZodType>(
  request: Request,
  schema: Schema,
  limits: BodyLimits,
): Promise<z.output<Schema>> {
  const text = await readText(request, limits.maxBytes);
  const parsed = schema.safeParse(text === '' ? {} : parseBounded(text, limits));
  if (parsed.success) return parsed.data;
  throw describeIssues(parsed.error.issues);
}

async function readText(request: Request, maxBytes: number): Promise<string> {
  refuseMediaType(request.headers);
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const reader = request.body?.getReader();
  let text = '';
  let bytes = 0;
  try {
    for (;;) {
      const { done, value } = (await readPart(reader)) ?? { done: true, value: undefined };
      if (done) break;
      bytes += value.byteLength;
      if (bytes > maxBytes) throw tooLarge(maxBytes);
      text += decoder.decode(value, { stream: true });
    }
    text += decoder.decode();
  } catch (error) {
    reader?.cancel().catch(() => {});
    if (error instanceof TypeError) throw new ApiError('input-invalid', 'The body is not UTF-8.');
    throw error;
  }
  if (text !== '' && request.headers.get('content-type') === null) throw wrongMediaType('none');
  return text;
}

/** The next bytes. What fails here is the connection, whatever error it comes with. */
async function readPart(reader: ReadableStreamDefaultReader<Uint8Array> | undefined) {
  try {
    return await reader?.read();
  } catch {
    throw new ApiError('request-aborted', 'The connection ended before the body was whole.');
  }
}

function refuseMediaType(headers: Headers): void {
  const encoding = headers.get('content-encoding');
  if (encoding !== null && encoding !== 'identity') {
    throw new ApiError('unsupported-media-type', 'The body must not be compressed: drop Content-Encoding.');
  }
  const type = headers.get('content-type');
  if (type !== null && !/^application\/json\s*(;|$)/i.test(type)) throw wrongMediaType('another');
}

function wrongMediaType(found: string): ApiError {
  return new ApiError(
    'unsupported-media-type',
    `A body needs "Content-Type: application/json"; the request has ${found}.`,
  );
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError('too-large', `The body is larger than ${maxBytes} bytes. Send less.`, {
    details: { maxBytes },
  });
}

function parseBounded(text: string, { maxDepth, maxValues }: BodyLimits): unknown {
  const { depth, commas } = measureJson(text);
  if (depth > maxDepth) {
    throw new ApiError('input-invalid', `The body is nested ${depth} deep; at most ${maxDepth} is taken.`);
  }
  if (commas >= maxValues) {
    throw new ApiError('input-invalid', `The body has more than ${maxValues} values. Send less.`);
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError('input-invalid', 'The body is not JSON. Send a JSON object.');
  }
}

const SHOWN_ISSUES = 10;

/** Names places and expectations; what was sent is not repeated. */
export function describeIssues(issues: readonly z.core.$ZodIssue[]): ApiError {
  const found = issues.slice(0, SHOWN_ISSUES).map(({ path, message }) => ({
    path: path.map(String).join('.').slice(0, 200),
    message: message.slice(0, 500),
  }));
  const [first] = found;
  const where = first?.path === '' ? 'the body' : first?.path;
  return new ApiError('input-invalid', `Not valid: ${where}: ${first?.message}.`, {
    details: { issues: found },
  });
}
