import { addUsage } from '../../machines/limits.ts';
import type { RunConfig } from '../../protocol/config.ts';
import { messageOf } from '../../protocol/error.ts';
import type { Spent } from '../../protocol/event.ts';
import type { AskVerdict, Guardrail, GuardrailContext } from '../../protocol/guardrail.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { costOf } from '../../protocol/listing/cost.ts';
import { type ReadApproval, readApproval } from '../../protocol/tool.ts';
import type { Usage } from '../../protocol/turn.ts';
import { cutText } from '../../text/cut-text.ts';
import { LONGEST_REASON_BYTES } from './service.ts';

/** What guardrails left of a value. */
export type Judged<Value> =
  /** `asked`: what all of them ask for. */
  | { type: 'passed'; value: Value; isReplaced: boolean; asked?: ReadApproval }
  | { type: 'blocked'; reason: string };

/** Returns what a guardrail gave as a value for the journal. Throws an `Error` that says what is wrong with it. */
type ReadValue<Value> = (given: unknown) => Value;

/** Runs guardrails in order, until one blocks. One that fails blocks. Never rejects. */
export async function judge<Value, Context, Other extends AskVerdict = never>(
  what: string,
  guardrails: readonly Guardrail<Value, Context, Other>[],
  given: Value,
  context: Context,
  readValue: ReadValue<Value>,
  { mayAsk = false } = {},
): Promise<Judged<Value>> {
  let asked: ReadApproval | undefined;
  let value = given;
  let isReplaced = false;
  for (const guardrail of guardrails) {
    try {
      const verdict = readVerdict(await guardrail(value, context), readValue);
      if (verdict.type === 'block') return { type: 'blocked', reason: verdict.reason };
      if (verdict.type === 'pass') continue;
      if (verdict.type === 'ask') {
        if (!mayAsk)
          throw new Error("its guardrail gave an 'ask', which only those of toolInput and answer may");
        asked = combineApprovals(asked, verdict.approval);
        continue;
      }
      value = verdict.value;
      isReplaced = true;
    } catch (error) {
      const reason = `${what} could not be checked: ${messageOf(error)}`;
      return { type: 'blocked', reason: cutText(reason, LONGEST_REASON_BYTES) };
    }
  }
  return { type: 'passed', value, isReplaced, ...omitUndefined({ asked }) };
}

type ReadVerdict<Value> =
  | { type: 'pass' }
  | { type: 'block'; reason: string }
  | { type: 'replace'; value: Value }
  | { type: 'ask'; approval: ReadApproval };

function readVerdict<Value>(given: unknown, readValue: ReadValue<Value>): ReadVerdict<Value> {
  const { type, reason, value } = Object(given) as Record<string, unknown>;
  switch (type) {
    case 'pass':
      return { type };
    case 'block':
      if (typeof reason === 'string' && reason !== '')
        return { type, reason: cutText(reason, LONGEST_REASON_BYTES) };
      throw new Error("its guardrail gave a 'block' without a reason");
    case 'replace':
      return { type, value: readValue(value) };
    case 'ask': {
      const approval = readApproval({ ...Object(given), required: true });
      if (approval?.reason !== undefined) return { type, approval };
      throw new Error("its guardrail gave an invalid 'ask'");
    }
    default:
      throw new Error("its guardrail gave neither { type: 'pass' }, 'block' nor 'replace'");
  }
}

/** Asks for what both ask for. Throws an `Error` if no group is in both. */
export function combineApprovals(one: ReadApproval | undefined, other: ReadApproval): ReadApproval {
  if (one === undefined || !one.required) return other;
  if (!other.required) return one;
  const groups = [one.by, other.by].filter(by => by !== undefined);
  const [first, second = first] = groups;
  const by = first?.filter(group => second?.includes(group));
  if (by?.length === 0)
    throw new Error(`no one may approve it: ${groups.map(each => each.join(' or ')).join(', and ')} must`);
  const reasons = [one.reason, other.reason].filter(reason => reason !== undefined);
  const isForSenders = one.not === 'sender' || other.not === 'sender';
  return {
    required: true,
    ...omitUndefined({
      reason: reasons.length === 0 ? undefined : reasons.join('; '),
      by,
      not: isForSenders ? ('sender' as const) : (one.not ?? other.not),
      quorum: chooseOf(Math.max, one.quorum, other.quorum),
      expiresInMs: chooseOf(Math.min, one.expiresInMs, other.expiresInMs),
    }),
  };
}

function chooseOf(choose: (...values: number[]) => number, ...given: (number | undefined)[]) {
  const values = given.filter(value => value !== undefined);
  return values.length === 0 ? undefined : choose(...values);
}

/** Adds up what guardrails report of their model calls. */
export class GuardrailUsage {
  readonly #config: RunConfig;
  #spent: Spent | undefined;

  constructor(config: RunConfig) {
    this.#config = config;
  }

  /** Without usage, or without a price where cost is limited, the limits can no longer be checked. */
  readonly count: GuardrailContext['countUsage'] = turn => {
    const { usage: given, model } = Object(turn) as Record<string, unknown>;
    const { prices, limits } = this.#config;
    const name = typeof model === 'string' ? model : '';
    const usage = readUsage(given);
    const isPriced = limits.cost === undefined || Object.hasOwn(prices ?? {}, name);
    const before = this.#spent ?? NOTHING;
    this.#spent = {
      ...before,
      usage: addUsage(before.usage, usage),
      cost: before.cost + costOf(usage, name, prices),
      ...(usage !== null && isPriced ? {} : { usageUnknown: true }),
    };
  };

  /** What was spent; absent if no call was reported. */
  get spent(): { spent?: Spent } {
    return this.#spent === undefined ? {} : { spent: this.#spent };
  }
}

/** Without the schema of usage, which would bring zod to browsers. */
function readUsage(given: unknown): Usage | null {
  const { inputTokens, outputTokens, ...rest } = Object(given) as Record<string, unknown>;
  if (!isCount(inputTokens) || !isCount(outputTokens)) return null;
  const { cachedInputTokens: cached, cacheWriteTokens: written, reasoningTokens: reasoning } = rest;
  return {
    inputTokens,
    outputTokens,
    cachedInputTokens: isCount(cached) ? cached : null,
    cacheWriteTokens: isCount(written) ? written : null,
    reasoningTokens: isCount(reasoning) ? reasoning : null,
    ...(rest.estimated === true ? { estimated: true } : {}),
  };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

const NOTHING: Spent = { turns: 0, toolCalls: 0, usage: null, cost: 0, activeMs: 0 };
