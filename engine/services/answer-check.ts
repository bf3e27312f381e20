import { dutiesOf, hasDuties } from '../../machines/duties.ts';
import { toolResults } from '../../machines/tool-results.ts';
import { digestOf } from '../../protocol/content/digest.ts';
import { messageOf } from '../../protocol/error.ts';
import type { AnswerContext, AnswerGuardrail } from '../../protocol/guardrail.ts';
import { DEEPEST_JSON, isTooDeep, type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import { fitsBytes } from '../../text/cut-text.ts';
import type { OutputContract } from './definition.ts';
import { GuardrailUsage, judge } from './guardrails.ts';
import type { Service, ServiceScope } from './service.ts';

/** The longest answer that a guardrail or a person may give, in bytes of UTF-8. */
export const LONGEST_ANSWER_BYTES = 1_048_576;

/**
 * Applies the guardrails of the answer, then the output schema. If one of them asks, the answer waits for people. An incomplete answer with an invalid format ends the run
 * without an output.
 */
export function makeAnswerCheck(
  guardrails: readonly AnswerGuardrail[],
  output: OutputContract | undefined,
): Service {
  return async scope => {
    await scope.durable();
    const usage = new GuardrailUsage(scope.context().config);
    const judged = await judge(
      'The answer',
      guardrails,
      scope.context().answer?.text ?? '',
      await contextOf(scope, usage),
      readAnswer,
      { mayAsk: true },
    );
    if (scope.stop.isStopped) return;
    if (judged.type === 'blocked')
      return void scope.report({ type: 'answer.blocked', reason: judged.reason, ...usage.spent });
    const passed = omitUndefined({ text: judged.isReplaced ? judged.value : undefined });
    const checked = output === undefined ? passed : await checkOutput(output, judged.value);
    if (scope.stop.isStopped) return;
    const { next } = scope.context();
    const isIncomplete = next?.type === 'finish' && next.reason !== undefined;
    if ('fault' in checked && !isIncomplete)
      scope.report({
        type: 'answer.blocked',
        code: 'output-invalid',
        reason: checked.fault,
        ...usage.spent,
      });
    else {
      // Without a schema here, the output is that of the sub-agent that answered.
      const known = output === undefined && !judged.isReplaced ? scope.context().answer?.output : undefined;
      const format = 'output' in checked ? { output: checked.output } : omitUndefined({ output: known });
      const shared = { ...passed, ...format, ...usage.spent };
      const { asked } = judged;
      if (asked === undefined) return void scope.report({ type: 'answer.checked', ...shared });
      const { reason = '', expiresInMs } = asked;
      const duties = hasDuties(asked) ? dutiesOf(asked) : undefined;
      const expiresAt = expiresInMs === undefined ? undefined : scope.host.now() + expiresInMs;
      const reviewId = scope.host.newId('review');
      const gate = {
        reviewId,
        digest: digestOf(judged.value),
        reason,
        ...omitUndefined({ duties, expiresAt }),
      };
      scope.report({ type: 'review.requested', ...gate, ...shared });
    }
  };
}

function readAnswer(given: unknown): string {
  if (typeof given !== 'string')
    throw new Error(`its guardrail replaced it with a ${typeof given}, not a text`);
  if (fitsBytes(given, LONGEST_ANSWER_BYTES)) return given;
  throw new Error(`its guardrail replaced it with more than ${LONGEST_ANSWER_BYTES} bytes`);
}

async function contextOf(scope: ServiceScope, usage: GuardrailUsage): Promise<AnswerContext> {
  const context = scope.context();
  return {
    runId: context.runId,
    runContext: context.runContext,
    transcript: [...(await scope.inherited()), ...context.transcript],
    results: toolResults(context),
    wholeOutput: async ({ output, blob }) =>
      blob === undefined || scope.blobs === null ? (output as JsonValue) : await scope.blobs.load(blob),
    signal: scope.stop.signal,
    countUsage: usage.count,
  };
}

/** Parses the answer as JSON, optionally in a code fence, and validates it. Never rejects. */
export async function checkOutput(
  { validate }: OutputContract,
  text: string,
): Promise<{ output: JsonValue } | { fault: string }> {
  if (isTooDeep(text))
    return { fault: `The answer is nested more than ${DEEPEST_JSON} levels deep. Answer again, with less.` };
  const value = parseAnswer(text);
  if (value === undefined)
    return { fault: 'The answer is not valid JSON. Answer again with the JSON object alone: no other text.' };
  try {
    const validation = await validate(value);
    if (validation.valid) return { output: toJson(validation.value) };
    return { fault: `The answer does not follow the schema: ${validation.message}. Answer again.` };
  } catch (error) {
    return { fault: `The answer could not be checked: ${messageOf(error)}` };
  }
}

const FENCE = '```';
const OPENING = /^```(?:json)?$/i;

function parseAnswer(text: string): JsonValue | undefined {
  try {
    return JSON.parse(withoutFence(text.trim()));
  } catch {
    return undefined;
  }
}

function withoutFence(text: string): string {
  const firstLine = text.indexOf('\n');
  if (firstLine === -1 || !text.endsWith(FENCE) || !OPENING.test(text.slice(0, firstLine).trimEnd()))
    return text;
  return text.slice(firstLine + 1, -FENCE.length);
}
