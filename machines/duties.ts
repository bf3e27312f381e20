import type { Duties, People, RunStarted } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import { isRedaction } from '../protocol/redaction.ts';

/*
 * Who may decide a gated call, or the answer under review.
 *
 * D1 A call or answer with duties (`by`, `not`, `quorum`) is decided only by people whom all of them allow. What is unknown is
 *    not allowed: a person without a name, and everybody if a starter or sender that `not` excludes has no name, or one
 *    that was redacted.
 * D2 Starters are who started the run, those that it continues, its original and its parent. Senders are the starters
 *    and all who wrote in it. Neither list ever gets shorter.
 * D3 One person counts once towards a quorum. Changed arguments begin it again, under the duties of these arguments, and
 *    so does a changed answer.
 * D4 No sticky rule decides a call with duties, and no edit drops, changes or answers it for someone it does not allow.
 */

/** What a person decides. `digest`: of what is decided; a decision names it. `approvedBy`: set with duties only. */
export type Decidable = Duties & { digest: string; expiresAt?: number; approvedBy?: readonly string[] };

/** Who gives a decision, as its event names them. */
type Decider = { by?: string; groups?: readonly string[] };

type Decision = Decider & { at: number; digest: string };

/** The duties of an open call. `excluded`: the people whom `not` excludes. */
type OpenDuties = Duties & { excluded?: People['starters']; approvedBy?: readonly string[] };

/** Why a person may not decide a call. */
export type Bar = 'nameless' | 'group' | 'starter' | 'sender' | 'nameless-starter' | 'nameless-sender';

export function hasDuties({ by, not, quorum }: Duties): boolean {
  return by !== undefined || not !== undefined || quorum !== undefined;
}

export function dutiesOf({ by, not, quorum }: Duties): Duties {
  return {
    ...(by === undefined ? {} : { by }),
    ...(not === undefined ? {} : { not }),
    ...(quorum === undefined ? {} : { quorum }),
  };
}

/** `approved by anna, 1 of 2`; empty before the first approval. */
export function describeApprovals({ approvedBy = [], quorum = 1 }: OpenDuties): string {
  return approvedBy.length === 0
    ? ''
    : `approved by ${approvedBy.join(', ')}, ${approvedBy.length} of ${quorum}`;
}

/** `approvals of 2 people in the group finance who did not start the run` */
export function describeDuties({ by = [], not, quorum = 1 }: Duties): string {
  const who = quorum === 1 ? 'the decision of a person' : `the approvals of ${quorum} people`;
  const groups = by.length === 0 ? '' : ` in the ${by.length === 1 ? 'group' : 'groups'} ${by.join(' or ')}`;
  return `${who}${groups}${not === undefined ? '' : EXCEPT[not]}`;
}

const EXCEPT = { starter: ' who did not start the run', sender: ' who did not write in the run' } as const;

/** Why this person may not decide a call with these duties; `null` if they may. */
export function findBar(duties: Duties, people: People, { by: name, groups = [] }: Decider): Bar | null {
  if (!hasDuties(duties)) return null;
  if (name === undefined) return 'nameless';
  if (duties.by !== undefined && !duties.by.some(group => groups.includes(group))) return 'group';
  if (duties.not === undefined) return null;
  const { not } = duties;
  const excluded = not === 'starter' ? people.starters : people.senders;
  if (excluded.includes(name)) return not;
  return excluded.some(one => one === null || isRedaction(one)) ? `nameless-${not}` : null;
}

/** Whether the decision is about the gate as it is, and in time. */
export function fitsGate({ digest, expiresAt }: Decidable, decision: Decision): boolean {
  return digest === decision.digest && (expiresAt === undefined || decision.at < expiresAt);
}

/** Whether this person has approved the gate as it is. */
export function isApprovedBy({ approvedBy }: Decidable, { by = '' }: Decider): boolean {
  return approvedBy?.includes(by) === true;
}

/** Who has approved the gate, with this person, and whether these are enough. */
export function countApproval(
  gate: Decidable,
  people: People,
  decider: Decider,
): { approvedBy?: string[]; isEnough: boolean } {
  if (!hasDuties(gate)) return { isEnough: true };
  const { by } = decider;
  const before = gate.approvedBy ?? [];
  const isCounted = by !== undefined && findBar(gate, people, decider) === null;
  const approvedBy = isCounted ? [...before, by] : [...before];
  return { approvedBy, isEnough: approvedBy.length >= (gate.quorum ?? 1) };
}

/** Why this person may not decide an open call, which knows whom its duties exclude; `null` if they may. */
export function findOpenBar(call: OpenDuties, decider: Decider): Bar | null {
  const { excluded = [] } = call;
  return findBar(call, { starters: excluded, senders: excluded }, decider);
}

/** Why no one at all may decide an open call; empty if a person may. */
export function describeDeadlock(call: OpenDuties): string {
  const bar = findOpenBar(call, { by: NOBODY, groups: call.by ?? [] });
  return bar?.startsWith('nameless-') === true ? `no one may decide: ${describeBar(bar, NOBODY)}` : '';
}

/** A name that no person has. */
const NOBODY = '';

/** The duties of something open, with the people whom they exclude by name. */
export function openDuties(
  { by, not, quorum, approvedBy }: Duties & { approvedBy?: string[] },
  { starters, senders }: People,
): OpenDuties & { approvedBy?: string[] } {
  const people = not === 'starter' ? starters : senders;
  const excluded = not === undefined ? undefined : people;
  return omitUndefined({ by, not, excluded, quorum, approvedBy });
}

/** Why the person with this name may not decide. */
export function describeBar(bar: Bar, name: string): string {
  return BARS[bar](name);
}

const BARS: Readonly<Record<Bar, (name: string) => string>> = {
  nameless: () => 'it is not known who this is',
  group: name => `${name} is in none of the groups`,
  starter: name => `${name} started the run`,
  sender: name => `${name} wrote in the run`,
  'nameless-starter': () => describeNameless('started'),
  'nameless-sender': () => describeNameless('wrote in'),
};

const describeNameless = (did: string) =>
  `it is not known who ${did} the run, so it may be the same person: start another with \`by\``;

/** A sub-agent's run has no starter of its own. */
export function peopleIn({ by, parent, people }: Pick<RunStarted, 'by' | 'parent' | 'people'>): People {
  const { starters = [], senders = [] } = people ?? {};
  if (parent !== undefined && by === undefined && people !== undefined) return { starters, senders };
  return { starters: withPerson(starters, by), senders: withPerson(senders, by) };
}

export function withSender(people: People, by: string | undefined): People {
  const senders = withPerson(people.senders, by);
  return senders === people.senders ? people : { ...people, senders };
}

function withPerson(list: People['starters'], name: string | null | undefined): People['starters'] {
  const one = name ?? null;
  return list.includes(one) ? list : [...list, one];
}
