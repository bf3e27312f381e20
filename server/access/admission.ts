import type { Caller } from '../../access/caller.ts';
import type { Host } from '../../engine/host/host.ts';
import type { Prices } from '../../protocol/config.ts';
import { costOf } from '../../protocol/listing/cost.ts';
import type { Usage } from '../../protocol/turn.ts';
import { ApiError } from '../error-envelope.ts';
import {
  type CallerLimits,
  DEFAULT_CALLER_LIMITS,
  type ServerLimits,
  type TokensConfig,
} from './access-config.ts';

export type AdmissionOptions = {
  host: Host;
  limits?: ServerLimits;
  tokens?: TokensConfig;
  prices?: Prices;
  /** The model calls since `from` (ms since the epoch) that the store has. */
  recorded?(from: number): AsyncIterable<UsedTurn>;
};

const BUSY_MS = 2_000;

/**
 * Lets requests begin runs within the limits of the server and of their tokens.
 *
 * L1 A run counts from its admission until it rests or ends, in this process.
 * L2 Usage is what providers report for model calls. Calls before this process are read from the journals, once, before
 *    the first request of a token with such limits.
 * L3 Limits are checked when a request arrives. Requests in progress continue, so they can exceed a limit.
 */
export class Admission {
  readonly limits: ServerLimits;
  readonly #options: AdmissionOptions;
  readonly #ledger: UsageLedger;
  readonly #running = new Map<string, number>();
  readonly #startedAt: number;
  #total = 0;
  #history: Promise<void> | undefined;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.limits = options.limits ?? DEFAULT_CALLER_LIMITS;
    this.#ledger = new UsageLedger(options.prices ?? {});
    this.#startedAt = options.host.now();
  }

  /** Call the result once the run rests or has ended. Throws `rate-limit-exceeded`, or `forbidden` without a price. */
  async admit(caller: Caller, model?: string): Promise<() => void> {
    const limits = this.#limitsOf(caller);
    await this.#assertUsage(caller, limits, model);
    const running = this.#running.get(caller.name) ?? 0;
    if (limits.concurrentRuns !== undefined && running >= limits.concurrentRuns)
      throw exceeded(`${limits.concurrentRuns} requests in progress`, BUSY_MS);
    if (this.#total >= this.limits.concurrentRuns)
      throw tooManyRequests(
        'The server is busy: it has too many requests in progress. Retry later.',
        BUSY_MS,
      );
    this.#count(caller.name, 1);
    let isReleased = false;
    return () => {
      if (!isReleased) this.#count(caller.name, -1);
      isReleased = true;
    };
  }

  record(caller: string, model: string, usage: Usage | null): void {
    this.#ledger.record({ caller, model, usage, at: this.#options.host.now() });
  }

  #limitsOf({ name: person, token: name = person }: Caller): CallerLimits {
    const { tokens = {} } = this.#options;
    return (Object.hasOwn(tokens, name) ? tokens[name]?.limits : undefined) ?? {};
  }

  async #assertUsage({ name }: Caller, limits: CallerLimits, model: string | undefined): Promise<void> {
    const { tokensPerMinute, tokensPerDay, spendPerDayUsd } = limits;
    if (tokensPerMinute === undefined && tokensPerDay === undefined && spendPerDayUsd === undefined) return;
    if (spendPerDayUsd !== undefined && model !== undefined && !this.#ledger.hasPrice(model))
      throw new ApiError('forbidden', 'This token cannot use this model.');
    await this.#readHistory();
    const now = this.#options.host.now();
    const used = this.#ledger.usedBy(name, now);
    const untilMidnight = DAY_MS - (now % DAY_MS);
    if (tokensPerDay !== undefined && used.dayTokens >= tokensPerDay)
      throw exceeded(`${tokensPerDay} tokens per day`, untilMidnight);
    if (spendPerDayUsd !== undefined && used.daySpend >= spendPerDayUsd)
      throw exceeded(`${spendPerDayUsd} US dollars per day`, untilMidnight);
    if (tokensPerMinute !== undefined && used.minuteTokens >= tokensPerMinute)
      throw exceeded(
        `${tokensPerMinute} tokens per minute`,
        this.#ledger.untilBelow(name, tokensPerMinute, now),
      );
  }

  /** Reads the model calls of earlier processes; again by the next request if it fails. */
  #readHistory(): Promise<void> {
    this.#history ??= this.#readRecorded().catch(error => {
      this.#history = undefined;
      throw error;
    });
    return this.#history;
  }

  async #readRecorded(): Promise<void> {
    const before = this.#startedAt;
    const from = Math.min(before - (before % DAY_MS), before - MINUTE_MS);
    const turns: UsedTurn[] = [];
    for await (const turn of this.#options.recorded?.(from) ?? []) if (turn.at < before) turns.push(turn);
    for (const turn of turns.sort((one, other) => one.at - other.at)) this.#ledger.record(turn);
  }

  #count(name: string, more: 1 | -1): void {
    this.#total += more;
    const running = (this.#running.get(name) ?? 0) + more;
    if (running === 0) this.#running.delete(name);
    else this.#running.set(name, running);
  }
}

function exceeded(limit: string, retryAfterMs: number): ApiError {
  return tooManyRequests(`This token's limit of ${limit} is reached. Retry later.`, retryAfterMs);
}

function tooManyRequests(message: string, retryAfterMs: number): ApiError {
  return new ApiError('rate-limit-exceeded', message, { retryAfterMs });
}

/** One model call of a caller. `at`: ms since the epoch; `model`: as in `provider:model`. */
export type UsedTurn = { caller: string; at: number; model: string; usage: Usage | null };

type Used = { minuteTokens: number; dayTokens: number; daySpend: number };

const MINUTE_MS = 60_000;
export const DAY_MS = 24 * 3_600_000;

type Account = { day: number; dayTokens: number; daySpend: number; recent: { at: number; tokens: number }[] };

/** By the name of the token. Days begin at midnight UTC. Models without a price cost 0. */
export class UsageLedger {
  readonly #prices: Prices;
  readonly #accounts = new Map<string, Account>();

  constructor(prices: Prices) {
    this.#prices = prices;
  }

  hasPrice(model: string): boolean {
    return Object.hasOwn(this.#prices, model);
  }

  record({ caller, at, model, usage }: UsedTurn): void {
    if (usage === null) return;
    const day = Math.floor(at / DAY_MS);
    const known = this.#accounts.get(caller);
    if (known !== undefined && known.day > day) return;
    const account =
      known?.day === day ? known : { day, dayTokens: 0, daySpend: 0, recent: known?.recent ?? [] };
    const tokens = usage.inputTokens + usage.outputTokens;
    account.dayTokens += tokens;
    account.daySpend += costOf(usage, model, this.#prices);
    account.recent.push({ at, tokens });
    // Calls come in order of time; the one just added is recent.
    account.recent.splice(
      0,
      account.recent.findIndex(call => call.at > at - MINUTE_MS),
    );
    this.#accounts.set(caller, account);
  }

  usedBy(caller: string, now: number): Used {
    const account = this.#accounts.get(caller);
    if (account === undefined) return { minuteTokens: 0, dayTokens: 0, daySpend: 0 };
    const isToday = account.day === Math.floor(now / DAY_MS);
    const recent = account.recent.filter(({ at }) => at > now - MINUTE_MS);
    return {
      minuteTokens: recent.reduce((sum, { tokens }) => sum + tokens, 0),
      dayTokens: isToday ? account.dayTokens : 0,
      daySpend: isToday ? account.daySpend : 0,
    };
  }

  /** How many ms it takes until the caller's tokens of the last minute are below `limit`. */
  untilBelow(caller: string, limit: number, now: number): number {
    const recent = (this.#accounts.get(caller)?.recent ?? []).filter(({ at }) => at > now - MINUTE_MS);
    let left = recent.reduce((sum, { tokens }) => sum + tokens, 0);
    for (const { at, tokens } of recent) {
      left -= tokens;
      if (left < limit) return at + MINUTE_MS - now;
    }
    return 0;
  }
}
