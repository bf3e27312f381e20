import * as z from 'zod';
import { EngineError, messageOf } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { RunStatus } from '../../protocol/store.ts';
import { EXPORT_FORMAT } from './export-run.ts';

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

/** An exported run as read from a file; its events are not validated. */
export type UncheckedRun = z.infer<typeof runSchema>;
/** An export as read from a file; its events are not validated. */
export type UncheckedExport = z.infer<typeof exportSchema>;

/**
 * Parses an export without validating its events. Throws `input-invalid` for any other text or an unknown format;
 * `name` names the export in the error.
 */
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
