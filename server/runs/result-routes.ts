import type { Context } from 'hono';
import * as z from 'zod';
import { streamedBody } from '../../engine/events/streamed-body.ts';
import { openCapture, openResult } from '../../engine/run/read-result.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import type { RunsEnv } from '../runs-env.ts';
import { findRecord } from './run-registry.ts';

const PAGE_BYTES = 64 * 1024;
const MOST_BYTES = 1024 * 1024;
/** The longest UTF-8 character, which every page must be able to hold. */
const LEAST_BYTES = 4;

export const resultQuery = z.object({
  offset: z.coerce.number().int().nonnegative().default(0).meta({ description: 'Bytes of UTF-8.' }),
  limit: z.coerce
    .number()
    .int()
    .min(LEAST_BYTES)
    .max(MOST_BYTES)
    .default(PAGE_BYTES)
    .meta({ description: 'Bytes of UTF-8.' }),
});

export const resultPageSchema = z.object({
  callId: z.string(),
  isError: z.boolean(),
  bytes: z.number().int().meta({ description: 'The size of the full JSON text in UTF-8.' }),
  digest: z
    .exactOptional(z.string())
    .meta({ description: 'SHA-256, if the result is stored outside the journal.' }),
  offset: z.number().int(),
  text: z.string().meta({ description: 'A part of the JSON text.' }),
  next: z
    .exactOptional(z.number().int())
    .meta({ description: 'The offset of the next page; absent on the last.' }),
});

export async function readResultPage(
  c: Context<RunsEnv>,
  store: Store,
  { id: runId, call: callId }: { id: string; call: string },
  { offset, limit }: z.output<typeof resultQuery>,
) {
  await findRecord(store, runId, c.get('caller'));
  const { isError, bytes, digest, page } = await openResult(store, runId, callId);
  return c.json({ callId, isError, bytes, ...omitUndefined({ digest }), ...(await page(offset, limit)) });
}

/** Answers with the JSON of `CapturedExchange[]`. Throws `result-missing` if nothing was captured or it was deleted. */
export async function downloadCapture(
  c: Context<RunsEnv>,
  store: Store,
  { id: runId, seq }: { id: string; seq: string },
) {
  await findRecord(store, runId, c.get('caller'));
  return await sendText(c, await openCapture(store, runId, Number(seq)), 'requests.json.txt');
}

export async function downloadResult(
  c: Context<RunsEnv>,
  store: Store,
  { id: runId, call: callId }: { id: string; call: string },
) {
  await findRecord(store, runId, c.get('caller'));
  return await sendText(c, (await openResult(store, runId, callId)).pages(), 'result.json.txt');
}

async function sendText(
  c: Context<RunsEnv>,
  pages: AsyncGenerator<Uint8Array, void>,
  name: string,
): Promise<Response> {
  // Read the first part before the response begins: a missing result must be an error status, not a broken download.
  const { value } = await pages.next();
  const body = streamedBody(pages, { begin: value ?? '', frame: page => page });
  return c.body(body, 200, {
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Disposition': `attachment; filename="${name}"`,
  });
}
