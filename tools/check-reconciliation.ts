import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { Reconciliation } from '../protocol/tool.ts';
import { validateWith } from './validate-with.ts';

/**
 * Returns the answer of a tool's `reconcile`, with the output as the tool's output schema returns it. Throws an `Error`
 * if the answer is malformed or its output invalid, which leaves the call in doubt: read as "it did not happen", a
 * misspelt answer would run the call again, and read as a failure, an invalid output would make the model try again.
 */
export async function checkReconciliation(
  name: string,
  answer: Reconciliation<unknown>,
  schema?: StandardSchemaV1,
): Promise<Reconciliation<unknown>> {
  if (typeof answer === 'object' && answer !== null) {
    if ('unknown' in answer && answer.unknown === true) return answer;
    const isFinal = 'final' in answer ? answer.final : undefined;
    if ('happened' in answer && typeof answer.happened === 'boolean' && isOptionalBoolean(isFinal))
      return answer.happened && schema ? await checkOutput(name, answer.output, schema) : answer;
  }
  throw new Error(
    `reconcile of "${name}": expected { happened: true, output }, { happened: false, final? } or { unknown: true }`,
  );
}

async function checkOutput(
  name: string,
  output: unknown,
  schema: StandardSchemaV1,
): Promise<Reconciliation<unknown>> {
  const validation = await validateWith(schema, output);
  if (validation.valid) return { happened: true, output: validation.value };
  throw new Error(
    `it happened, but the output that reconcile of "${name}" returned does not match its output schema: ${validation.message}`,
  );
}

function isOptionalBoolean(value: unknown): boolean {
  return value === undefined || typeof value === 'boolean';
}
