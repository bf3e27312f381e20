import * as z from 'zod';
import { makeHash } from '../../protocol/content/hash-text.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import type { BlobReference } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { RunStatus } from '../../protocol/store.ts';

/** The format of an export; the number changes with the format. Not frozen before 1.0. */
export const EXPORT_FORMAT = 'agentchart-run/1';

const run = {
  run: z.strictObject({
    runId: z.string(),
    agent: z.strictObject({ name: z.string(), version: z.exactOptional(z.string()) }),
    chart: z.strictObject({ version: z.number(), hash: z.string() }),
  }),
  journal: z
    .array(
      z.strictObject({ seq: z.number().int(), event: z.custom<JsonValue>(event => event !== undefined) }),
    )
    .min(1),
  hashes: z.array(z.string()),
  end: z.strictObject({
    status: z.enum(['running', 'waiting', 'finished', 'failed', 'cancelled'] satisfies RunStatus[]),
    epoch: z.number(),
    at: z.number(),
    stateHash: z.string(),
  }),
  seal: z.string(),
};

const runSchema = z.strictObject(run);

const exportSchema = z.strictObject({
  format: z.literal(EXPORT_FORMAT),
  ...run,
  chain: z.exactOptional(z.array(runSchema)),
});

export type UncheckedRun = z.infer<typeof runSchema>;
export type UncheckedExport = z.infer<typeof exportSchema>;

/** Events are not validated. Throws `input-invalid` for any other text; `name` names the export in the error. */
export function readExport(text: string, name: string): UncheckedExport {
  const value = parse(text, name);
  const { format } = z
    .looseObject({ format: z.exactOptional(z.unknown()) })
    .catch({})
    .parse(value);
  if (format !== EXPORT_FORMAT) {
    const found = typeof format === 'string' ? `format ${JSON.stringify(format)}` : 'no format';
    throw invalid(name, `expected "format": "${EXPORT_FORMAT}", found ${found}`);
  }
  const parsed = exportSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw invalid(name, `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not valid'}`);
}

function parse(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw invalid(name, `it is not JSON: ${messageOf(cause)}`);
  }
}

function invalid(name: string, problem: string): EngineError {
  return new EngineError(
    'input-invalid',
    `${name} is not the export of a run: ${problem}. \`agentchart export RUN --out FILE\` creates one.`,
  );
}

/** A part of a large result, one line after an export; the parts of one result are in order. */
const partSchema = z.strictObject({ blob: z.string(), text: z.string() });
export type ExportedPart = z.infer<typeof partSchema>;

/** Hashes the large results of an export while reading it; keeps no text. */
export class ExportedBlobs {
  readonly #hashes = new Map<string, ReturnType<typeof makeHash>>();
  readonly #digests = new Map<string, string>();

  /** Adds a line and returns its part. Throws `input-invalid` for another line; `name` names the export in the error. */
  take(line: string, name: string): ExportedPart {
    const part = readPart(line, name);
    const { blob, text } = part;
    const hash = this.#hashes.get(blob) ?? makeHash();
    this.#hashes.set(blob, hash);
    hash.update(new TextEncoder().encode(text));
    return part;
  }

  /** Returns the fault of a result that an entry refers to, worded to follow "entry n"; otherwise `null`. */
  findFault({ digest, bytes }: BlobReference): string | null {
    const found = this.#digestOf(digest);
    if (found === undefined) return `refers to a result of ${bytes} bytes that is missing from the export`;
    return found === digest ? null : 'refers to a result that was changed after the export: its hash differs';
  }

  #digestOf(blob: string): string | undefined {
    const digest = this.#digests.get(blob) ?? this.#hashes.get(blob)?.digest();
    if (digest !== undefined) this.#digests.set(blob, digest);
    return digest;
  }
}

function readPart(line: string, name: string): ExportedPart {
  try {
    return partSchema.parse(JSON.parse(line));
  } catch (cause) {
    const message = `${name} is not the export of a run: a line after its journal is not a part of a result. Export the run again.`;
    throw new EngineError('input-invalid', message, null, { cause });
  }
}
