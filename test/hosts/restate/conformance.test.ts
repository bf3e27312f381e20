import { expect, test } from 'vitest';
import type { RestateCalls } from '../../../hosts/restate/ingress.ts';
import { RestateStore } from '../../../hosts/restate/restate-store.ts';
import { makeRestateServices } from '../../../hosts/restate/services.ts';
import type { ClaimRequest, DeleteOptions, Owner, PruneOptions, Redaction } from '../../../protocol/store.ts';
import { storeChecks } from '../../../stores/conformance.ts';
import { RestateStandIn } from '../../support/restate/restate-stand-in.ts';

/** Claims as a worker does that has the current delivery of each run. */
class ClaimingStore extends RestateStore {
  readonly #calls: RestateCalls;
  readonly #numbers: Map<string, number>;
  /** By the id of the owner: when its lease would expire. */
  readonly #until = new Map<string, number>();

  constructor(calls: RestateCalls, numbers = new Map<string, number>()) {
    super(calls, numbers);
    this.#calls = calls;
    this.#numbers = numbers;
  }

  override async create(...[event, claim, rest]: Parameters<RestateStore['create']>) {
    const created = await super.create(event, undefined, rest);
    const claimed = claim && (await this.claim(event.runId, claim));
    return claimed?.type === 'claimed' ? { epoch: claimed.epoch, seq: claimed.seq } : created;
  }

  override async claim(runId: string, request: ClaimRequest) {
    const before = await this.#calls.run(runId, 'get', undefined);
    if (before?.working === null) await this.#calls.run(runId, 'call', { reason: 'resumed' });
    const meta = await this.#calls.run(runId, 'get', undefined);
    this.#numbers.set(runId, meta?.working ?? 0);
    this.#until.set(request.owner.id, request.now + request.leaseMs);
    return await super.claim(runId, request);
  }

  override async delete(runIds: string | readonly string[], options: DeleteOptions = {}) {
    return await super.delete(runIds, { ...options, isDead: this.#isGone(options) });
  }

  override async prune(options: PruneOptions) {
    return await super.prune({ ...options, isDead: this.#isGone(options) });
  }

  override async rewrite(runId: string, redaction: Redaction) {
    return await super.rewrite(runId, { ...redaction, isDead: this.#isGone(redaction) });
  }

  /** Leases on Restate do not expire, so these checks count an owner as dead from then on. */
  #isGone({ now = 0, isDead = () => false }: Pick<DeleteOptions, 'now' | 'isDead'>) {
    return (owner: Owner) => isDead(owner) || (this.#until.get(owner.id) ?? 0) <= now;
  }
}

const restates: RestateStandIn[] = [];

/** A store on the stand-in. No worker drives its runs: the deliveries do not end. */
async function open(): Promise<RestateStore> {
  const restate = new RestateStandIn();
  restates.push(restate);
  const deliveries = { assertTaken() {}, abandon() {}, drive: () => new Promise<null>(() => {}) };
  restate.serve(() => makeRestateServices(deliveries as never));
  return new ClaimingStore(restate.calls());
}

/** What does not hold on Restate, by the reason. */
const EXCEPT: Readonly<Record<string, readonly string[]>> = {
  'leases do not expire': [
    'a run can be created with a claim, which is in its journal',
    'a claim of a free run gets the lease and is journaled',
    'only the current epoch renews the lease',
    'one renewal extends many leases and returns the lost ones, of deleted runs too',
  ],
  'a second claim for the same delivery replaces the first': [
    'the identity of an owner is kept with the lease and in the journal',
    'a claim of a held run is refused with the owner and the expiry of the lease',
    'a dead owner is replaced before its lease expires',
    'of many concurrent claims of a free run, exactly one succeeds',
    'changing a record, a lease or a snapshot does not change the store',
  ],
  'a run that has ended is not delivered, and so not claimed': [
    'pruning takes child runs with their parent, and spares what is driven or continued by a run that stays',
  ],
  'the object with the text does not know whether there is a run': [
    'an unknown run has no text, and a deleted run loses its text',
  ],
};
const excepted = Object.values(EXCEPT).flat();
const checks = storeChecks({ open });

test.each(checks.filter(({ name }) => !excepted.includes(name)))('$name', async ({ run }) => {
  await run();
  for (const { faults } of restates.splice(0)) expect(faults).toEqual([]);
});

test('the exceptions are checks', () => {
  const names = checks.map(({ name }) => name);
  expect(excepted.filter(name => !names.includes(name))).toEqual([]);
});
