import type { Prices } from '../../protocol/config.ts';
import { costOf } from '../../protocol/listing/cost.ts';
import type { Usage } from '../../protocol/turn.ts';

/** One model call of a caller. `at`: ms since the epoch; `model`: as in `provider:model`. */
export type UsedTurn = { caller: string; at: number; model: string; usage: Usage | null };

/** What a caller has used: tokens of the last minute and of the day, and dollars of the day. */
export type Used = { minuteTokens: number; dayTokens: number; daySpend: number };

export const MINUTE_MS = 60_000;
export const DAY_MS = 24 * 3_600_000;

type Account = { day: number; dayTokens: number; daySpend: number; recent: { at: number; tokens: number }[] };

/** By the name of the token. Days begin at midnight UTC. Unknown usage, and models without a price, count 0. */
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
