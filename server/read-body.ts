import type * as z from 'zod';
import { measureJson } from '../protocol/json.ts';
import { asSentence } from '../protocol/options/refuse-unknown.ts';
import { ApiError } from './error-envelope.ts';

export type BodyLimits = {
  /** The size of the body. Default 1 MiB. */
  maxBytes: number;
  /** The nesting depth of arrays and objects. Default 64. */
  maxDepth: number;
  /** The total number of members and elements. Default 100 000. */
  maxValues: number;
};

export const BODY_LIMITS: BodyLimits = { maxBytes: 1024 * 1024, maxDepth: 64, maxValues: 100_000 };

/** An empty body counts as `{}`. Throws an `ApiError`: `request-aborted` if the client disconnected. */
export async function readBody<Schema extends z.ZodType>(
  request: Request,
  schema: Schema,
  limits: BodyLimits,
): Promise<z.output<Schema>> {
  const text = await readJsonText(request, limits.maxBytes);
  const parsed = schema.safeParse(text === '' ? {} : parseBounded(text, limits));
  if (parsed.success) return parsed.data;
  throw describeIssues(parsed.error.issues);
}

/** The JSON body of a request, for a reader of its own; `parse` for one that is not empty. Throws like `readBody`. */
export async function readAnyBody(
  c: { req: { raw: Request }; get(name: 'requestLimits'): BodyLimits },
  parse: (text: string, limits: BodyLimits) => unknown = parseBounded,
): Promise<unknown> {
  const limits = c.get('requestLimits');
  const text = await readJsonText(c.req.raw, limits.maxBytes);
  return text === '' ? {} : parse(text, limits);
}

async function readJsonText(request: Request, maxBytes: number): Promise<string> {
  refuseMediaType(request.headers);
  const text = await readText(request, maxBytes);
  if (text !== '' && request.headers.get('content-type') === null) throw wrongMediaType('no Content-Type');
  return text;
}

/** Reads a body of any media type. Stops at `maxBytes`. `length`: `null` if there may be less than was announced. */
export async function readText(
  request: Request,
  maxBytes: number,
  length = request.headers.get('content-length'),
): Promise<string> {
  if (Number(length ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const bytes = length === null ? await readChunked(request, maxBytes) : await readKnown(request);
  if (bytes.byteLength > maxBytes) throw tooLarge(maxBytes);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw notUtf8();
  }
}

/** Reads a body with a `Content-Length`, without another stream: Node's parser enforces the length. */
async function readKnown(request: Request): Promise<ArrayBuffer> {
  return await request.arrayBuffer().catch(() => {
    throw aborted();
  });
}

async function readChunked(request: Request, maxBytes: number): Promise<ArrayBuffer> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request.body ?? []) {
      chunks.push(chunk);
      bytes += chunk.byteLength;
      if (bytes > maxBytes) break;
    }
  } catch {
    throw aborted();
  }
  return await new Blob(chunks).arrayBuffer();
}

function aborted(): ApiError {
  return new ApiError('request-aborted', 'The connection ended before the body was complete.');
}

function notUtf8(): ApiError {
  return new ApiError('input-invalid', 'The body is not UTF-8. Send UTF-8 encoded JSON.');
}

function refuseMediaType(headers: Headers): void {
  const encoding = headers.get('content-encoding');
  if (encoding !== null && encoding !== 'identity') {
    throw new ApiError(
      'unsupported-media-type',
      'Compressed bodies are not supported. Send the body without Content-Encoding.',
    );
  }
  const type = headers.get('content-type');
  if (type !== null && !/^application\/json\s*(;|$)/i.test(type))
    throw wrongMediaType('another Content-Type');
}

function wrongMediaType(found: string): ApiError {
  return new ApiError(
    'unsupported-media-type',
    `The request has ${found}. Send the body with "Content-Type: application/json".`,
  );
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError('too-large', `The body is larger than ${maxBytes} bytes. Send a smaller body.`, {
    details: { maxBytes },
  });
}

export function parseBounded(text: string, { maxDepth, maxValues }: Omit<BodyLimits, 'maxBytes'>): unknown {
  const { depth, commas } = measureJson(text);
  if (depth > maxDepth) {
    throw new ApiError(
      'input-invalid',
      `The body is nested ${depth} levels deep. At most ${maxDepth} levels are allowed.`,
    );
  }
  if (commas >= maxValues) {
    throw new ApiError('input-invalid', `The body has more than ${maxValues} values. Send fewer.`);
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError('input-invalid', 'The body is not JSON. Send a JSON object.');
  }
}

const SHOWN_ISSUES = 10;

/** An `input-invalid` error that names the path and expectation of each issue, but repeats no value. */
export function describeIssues(issues: readonly z.core.$ZodIssue[]): ApiError {
  const found = issues.slice(0, SHOWN_ISSUES).map(({ path, message }) => ({
    path: path.map(String).join('.').slice(0, 200),
    message: message.slice(0, 500),
  }));
  const [first] = found;
  const where = first?.path === '' ? 'the body' : first?.path;
  return new ApiError(
    'input-invalid',
    asSentence(`Invalid request: ${where}: ${first?.message.replace(/^Invalid input: /, '')}`),
    { details: { issues: found } },
  );
}
