import { addUsage } from '../../machines/limits.ts';
import type { RunConfig } from '../../protocol/config.ts';
import { messageOf } from '../../protocol/error.ts';
import type { Spent } from '../../protocol/event.ts';
import type { Guardrail, GuardrailContext } from '../../protocol/guardrail.ts';
import { costOf } from '../../protocol/listing/cost.ts';
import { type Usage, usageSchema } from '../../protocol/turn.ts';
import { cutText } from '../../text/cut-text.ts';
import { LONGEST_REASON_BYTES } from './service.ts';

/** What guardrails left of a value. */
export type Judged<Value> =
  | { type: 'passed'; value: Value; isReplaced: boolean }
  | { type: 'blocked'; reason: string };

/** Returns what a guardrail gave as a value for the journal. Throws an `Error` that says what is wrong with it. */
type ReadValue<Value> = (given: unknown) => Value;

/** Runs guardrails in order, until one blocks. One that fails blocks. Never rejects. */
export async function judge<Value, Context>(
  what: string,
  guardrails: readonly Guardrail<Value, Context>[],
  given: Value,
  context: Context,
  readValue: ReadValue<Value>,
): Promise<Judged<Value>> {
  let value = given;
  let isReplaced = false;
  for (const guardrail of guardrails) {
    try {
      const verdict = readVerdict(await guardrail(value, context), readValue);
      if (verdict.type === 'block') return { type: 'blocked', reason: verdict.reason };
      if (verdict.type === 'pass') continue;
      value = verdict.value;
      isReplaced = true;
    } catch (error) {
      const reason = `${what} could not be checked: ${messageOf(error)}`;
      return { type: 'blocked', reason: cutText(reason, LONGEST_REASON_BYTES) };
    }
  }
  return { type: 'passed', value, isReplaced };
}

type ReadVerdict<Value> =
  | { type: 'pass' }
  | { type: 'block'; reason: string }
  | { type: 'replace'; value: Value };

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
    default:
      throw new Error("its guardrail gave neither { type: 'pass' }, 'block' nor 'replace'");
  }
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
    const usage: Usage | null = usageSchema.safeParse(given).data ?? null;
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

const NOTHING: Spent = { turns: 0, toolCalls: 0, usage: null, cost: 0, activeMs: 0 };
