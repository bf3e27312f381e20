import { describeDuties } from '../machines/duties.ts';
import type { Duties, JournalEntry } from '../protocol/event.ts';
import { canonicalJson, isJsonObject, type JsonValue, omitUndefined } from '../protocol/json.ts';
import type { RunStatus } from '../protocol/store.ts';
import type { Comparison, FoundDifference, Paired, Sameness } from './played-run.ts';
import {
  type Behaviour,
  type KeyOf,
  type MadeCall,
  type MadeQuestion,
  readBehaviour,
} from './read-behaviour.ts';

/** The whole journal of a run, from its first entry. */
export type Side = { entries: Iterable<JournalEntry> };

export type CompareOptions = {
  /** Says which calls are equal. Default: those with the same tool and input. */
  keyOf?: KeyOf;
  /** What the user's own function says of both runs. */
  score?: Paired;
};

/**
 * Compares what two runs did. Ids, times and the order of calls do not count.
 *
 * D1 Equal calls are matched: first those that are equal in everything, of them those in the same round, and then in
 *    their order. So a call that only moves to another round is not a difference.
 * D2 Of what is left in a round, as many calls of a tool on both sides are `input` differences; the others are new or
 *    missing.
 * D3 Of matched calls, the gate and the decision are compared, and then the outcome: a call has one difference at most.
 * D4 A candidate that has not ended, and has a call without outcome that differs, was stopped there. The rest of the
 *    recording has no counterpart: what the candidate lacks from that round on, equal calls that wait beside that one, and its
 *    end are not differences.
 *
 * Throws `journal-damaged` and `chart-mismatch`.
 */
export function compareRuns(recorded: Side, candidate: Side, options: CompareOptions = {}): Comparison {
  const { keyOf, score } = options;
  const [was, is] = [readBehaviour(recorded.entries, keyOf), readBehaviour(candidate.entries, keyOf)];
  const { differences: calls, stopped } = compareEffects(was, is);
  const turn = Math.max(1, is.lastTurn);
  const ends = stopped ? [] : compareEnds(was, is, turn);
  const differences = [...calls, ...ends];
  const scores =
    score === undefined || score.recorded === score.candidate
      ? []
      : [{ kind: 'score' as const, turn, detail: `the score is ${score.candidate} (was ${score.recorded})` }];
  const pair = (name: 'turns' | 'tokens' | 'cost'): Paired => ({
    recorded: was.figures[name],
    candidate: is.figures[name],
  });
  return {
    sameness: samenessOf(differences, was, is),
    differences: [...differences, ...scores],
    ...(stopped && { stopped }),
    turns: pair('turns'),
    tokens: pair('tokens'),
    cost: pair('cost'),
    ...omitUndefined({ score }),
  };
}

function samenessOf(
  { length }: readonly FoundDifference[],
  { texts }: Behaviour,
  candidate: Behaviour,
): Sameness {
  if (length > 0) return 'otherEffects';
  const isSame =
    texts.length === candidate.texts.length && texts.every((text, at) => text === candidate.texts[at]);
  return isSame ? 'same' : 'sameEffects';
}

type Pair = { was: MadeCall; is: MadeCall };

/** `left` and `fresh`: the calls that only the recorded run has, and only the candidate. */
type Matched = { pairs: Pair[]; left: MadeCall[]; fresh: MadeCall[] };

function matchBy(
  keyOf: (call: MadeCall) => string,
  recorded: readonly MadeCall[],
  candidate: readonly MadeCall[],
): Matched {
  const open = Map.groupBy(recorded.toReversed(), keyOf);
  const pairs: Pair[] = [];
  const fresh: MadeCall[] = [];
  for (const is of candidate) {
    const was = open.get(keyOf(is))?.pop();
    if (was === undefined) fresh.push(is);
    else pairs.push({ was, is });
  }
  const matched = new Set(pairs.map(({ was }) => was));
  return { pairs, left: recorded.filter(call => !matched.has(call)), fresh };
}

/** `pairs`: equal calls that differ in something else. */
function matchCalls(recorded: readonly MadeCall[], candidate: readonly MadeCall[]): Matched {
  const inRound = (keyOf: (call: MadeCall) => string) => (call: MadeCall) => `${call.turn} ${keyOf(call)}`;
  const keyOf = ({ key }: MadeCall) => key;
  const equal = matchBy(inRound(signatureOf), recorded, candidate);
  const moved = matchBy(signatureOf, equal.left, equal.fresh);
  const other = matchBy(inRound(keyOf), moved.left, moved.fresh);
  const rest = matchBy(keyOf, other.left, other.fresh);
  return { ...rest, pairs: [...other.pairs, ...rest.pairs] };
}

/** Equal for calls that are equal in everything. */
function signatureOf({ key, gate, decision, editedKey, outcome, asked = [] }: MadeCall): string {
  const early = asked.flatMap(one => (one.early ? [nameOf(one)] : []));
  return JSON.stringify([
    key,
    gate && gateOf(gate),
    decision,
    editedKey,
    outcome,
    [...new Set(early)].sort(),
  ]);
}

function gateOf({ by, ...duties }: Duties): string {
  return canonicalJson({ ...duties, ...(by && { by: by.toSorted() }) } as JsonValue);
}

function compareEffects(
  recorded: Behaviour,
  candidate: Behaviour,
): { differences: FoundDifference[]; stopped: boolean } {
  const equal = matchCalls(recorded.effects, candidate.effects);
  const roundOf = ({ turn, name }: MadeCall) => `${turn} ${name}`;
  const left = Map.groupBy(equal.left, roundOf);
  const fresh = Map.groupBy(equal.fresh, roundOf);
  const found: { at: MadeCall; difference: FoundDifference }[] = [];
  const note = (at: MadeCall, difference: Pick<FoundDifference, 'kind' | 'detail'>, was = at) => {
    const { turn, name: tool } = at;
    // A call that is refused at once has no tool that says it.
    const { sideEffect } = isRefusedAtOnce(at) ? was : at;
    found.push({ at, difference: { ...difference, turn, tool, sideEffect } });
  };
  const changed = new Set<MadeCall>();
  for (const [round, calls] of fresh) {
    const before = left.get(round) ?? [];
    for (const [place, is] of calls.entries()) {
      const was = before.length === calls.length ? before[place] : undefined;
      if (was === undefined) note(is, { kind: 'new-call', detail: describeNew(is) });
      else {
        changed.add(was);
        note(is, { kind: 'input', detail: describeInput(was, is) }, was);
      }
    }
  }
  const [waiting, ended] = partition(equal.pairs, ({ was, is }) => isOnlyWaiting(was, is));
  for (const { was, is } of ended) note(is, compareCall(was, is), was);
  const hasStop = () =>
    !ENDED.has(candidate.status) &&
    found.some(({ at: { outcome } }) => outcome === 'open' || outcome === 'doubted');
  if (!hasStop()) for (const { was, is } of waiting) note(is, compareCall(was, is), was);
  const stopped = hasStop();
  const end = stopped ? candidate.lastTurn : Number.POSITIVE_INFINITY;
  for (const was of equal.left)
    if (!changed.has(was) && was.turn < end)
      note(was, { kind: 'missing-call', detail: `${describeCall(was)} was not called` });
  return { differences: sortByTurn(found, candidate.effects), stopped };
}

const ENDED: ReadonlySet<RunStatus> = new Set(['finished', 'failed', 'cancelled']);

function partition<Value>(values: readonly Value[], holds: (value: Value) => boolean): [Value[], Value[]] {
  return [values.filter(holds), values.filter(value => !holds(value))];
}

/** In the order of the candidate; what is missing comes after its round. */
function sortByTurn(
  found: readonly { at: MadeCall; difference: FoundDifference }[],
  order: readonly MadeCall[],
): FoundDifference[] {
  const places = new Map(order.map((effect, place) => [effect, place]));
  const placeOf = ({ at }: { at: MadeCall }) => places.get(at) ?? order.length;
  return found
    .toSorted((one, other) => one.at.turn - other.at.turn || placeOf(one) - placeOf(other))
    .map(({ difference }) => difference);
}

/** Whether all that the candidate lacks is what people and services said of the call. */
function isOnlyWaiting(was: MadeCall, is: MadeCall): boolean {
  if (is.outcome !== 'open' || is.decision !== undefined) return false;
  return compareGates(was, is) === null && findFresh(was, is) === undefined;
}

function compareCall(was: MadeCall, is: MadeCall): Pick<FoundDifference, 'kind' | 'detail'> {
  const decided = isRefusedAtOnce(was) === isRefusedAtOnce(is) ? compareDecisions(was, is) : null;
  if (decided !== null) return { kind: 'decision', detail: `${describeCall(is)} ${decided}` };
  const detail = `${describeCall(is)} ${describeOutcome(is, IS)}; it ${describeOutcome(was, WAS)}`;
  return { kind: 'outcome', detail };
}

/** Without asking anyone: the input does not fit, or a rule, a guardrail or a limit is against it. */
function isRefusedAtOnce({ outcome, gate, decision }: MadeCall): boolean {
  return outcome === 'refused' && gate === undefined && decision === undefined;
}

function compareDecisions(was: MadeCall, is: MadeCall): string | null {
  const gates = compareGates(was, is);
  if (gates !== null) return gates;
  if (was.decision !== is.decision || was.editedKey !== is.editedKey)
    return `${describeDecision(is)}; it ${describeDecision(was)}`;
  return compareQuestions(was, is);
}

/** A question that the recorded call was not asked, before it began or later. */
function findFresh({ asked: was = [] }: MadeCall, { asked: is = [] }: MadeCall): MadeQuestion | undefined {
  const known = new Set(was.map(nameOf));
  return is.find(one => !known.has(nameOf(one)));
}

/** What a tool asks while it runs is not known of a candidate, whose tools are not executed. */
function compareQuestions(was: MadeCall, is: MadeCall): string | null {
  const fresh = findFresh(was, is);
  if (fresh !== undefined) {
    const before = was.asked?.findLast(({ key }) => key === fresh.key);
    return `asks ${quoteOf(fresh)}; it ${before === undefined ? 'did not' : `asked ${quoteOf(before)}`}`;
  }
  if (is.outcome === 'open') return null;
  const known = new Set(is.asked?.map(nameOf));
  const missing = was.asked?.find(one => one.early && !known.has(nameOf(one)));
  return missing === undefined ? null : `does not ask ${quoteOf(missing)}; it did`;
}

function nameOf({ key, digest }: MadeQuestion): string {
  return `${key} ${digest}`;
}

function quoteOf({ message }: MadeQuestion): string {
  return JSON.stringify(shorten(message, LONGEST_VALUE));
}

function compareGates({ gate: was, outcome }: MadeCall, { gate: is }: MadeCall): string | null {
  if (was === undefined && is === undefined) return null;
  const ran = outcome === 'settled' || outcome === 'failed';
  if (was === undefined) return `asks for approval; it ${ran ? 'ran without' : 'did not'}`;
  if (is === undefined) return 'asks for no approval; it asked for one';
  if (gateOf(was) === gateOf(is)) return null;
  return `needs ${describeDuties(is)}; it needed ${describeDuties(was)}`;
}

function describeDecision({ decision, editedKey }: MadeCall): string {
  const other = editedKey === undefined ? '' : ' with an input that a person wrote';
  switch (decision) {
    case 'approve':
      return `was approved${other}`;
    case 'reject':
      return 'was rejected';
    case 'answer':
      return 'was answered by a person';
    default:
      return editedKey === undefined ? 'was not decided' : 'was edited by a person';
  }
}

const IS = { settled: 'succeeded', failed: 'failed', doubted: 'is in doubt', open: 'has no result' };
const WAS = { settled: 'succeeded', failed: 'failed', doubted: 'was in doubt', open: 'had no result' };

function describeOutcome({ outcome, refusal }: MadeCall, words: typeof IS): string {
  if (outcome !== 'refused') return words[outcome];
  return refusal === undefined ? 'was refused' : `was refused: ${shorten(refusal, LONGEST_VALUE)}`;
}

function describeNew(is: MadeCall): string {
  const asks = is.gate === undefined ? '' : ', and asks for approval';
  const refused = isRefusedAtOnce(is) ? `; it ${describeOutcome(is, WAS)}` : '';
  return `${describeCall(is)} is new${asks}${refused}`;
}

function describeInput(was: MadeCall, is: MadeCall): string {
  const fields = listChanges(was.input, is.input);
  const shown = fields.slice(0, SHOWN_FIELDS).map(field => describeChange(field, 'its input'));
  const more = fields.length - shown.length;
  const asks = is.gate === undefined || was.gate !== undefined ? '' : '; it asks for approval';
  return `${shorten(is.name, LONGEST_NAME)}: ${shown.join(', ')}${more > 0 ? `, and ${more} more` : ''}${asks}`;
}

function compareEnds(recorded: Behaviour, candidate: Behaviour, turn: number): FoundDifference[] {
  if (recorded.end !== candidate.end)
    return [{ kind: 'end', turn, detail: `the run ${candidate.end}; the recorded one ${recorded.end}` }];
  const changes = listChanges(recorded.output, candidate.output);
  const shown = changes.slice(0, MOST_OUTPUTS).map((change): FoundDifference => {
    const detail = describeChange(change, 'the output');
    return { kind: 'output', turn, field: shorten(change.path, LONGEST_VALUE), detail };
  });
  const more = changes.length - shown.length;
  const rest = { kind: 'output', turn, field: '', detail: `${more} more fields of the output` } as const;
  return more > 0 ? [...shown, rest] : shown;
}

/** How many fields of an output are told one by one, and how many of an input. */
const MOST_OUTPUTS = 20;
const SHOWN_FIELDS = 3;

type Change = { path: string; was: JsonValue | undefined; is: JsonValue | undefined };

/** The smallest parts of two values that differ. `path`: keys joined by dots. */
function listChanges(
  was: JsonValue | undefined,
  is: JsonValue | undefined,
  path: readonly string[] = [],
): Change[] {
  if (was === is) return [];
  const isPair = isJsonObject(was) && isJsonObject(is);
  if (!isPair && !(Array.isArray(was) && Array.isArray(is))) return [{ path: path.join('.'), was, is }];
  const keys = new Set([...Object.keys(was), ...Object.keys(is)]);
  return [...keys].flatMap(key => listChanges(memberOf(was, key), memberOf(is, key), [...path, key]));
}

function memberOf(value: object, key: string): JsonValue | undefined {
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}

function describeChange({ path, was, is }: Change, whole: string): string {
  const show = (value: JsonValue | undefined) => (value === undefined ? 'absent' : describeValue(value));
  return `${path === '' ? whole : shorten(path, LONGEST_NAME)} is ${show(is)} (was ${show(was)})`;
}

/** In UTF-16 units. */
const LONGEST_CALL = 160;
const LONGEST_VALUE = 80;
const LONGEST_NAME = 64;
const MOST_MEMBERS = 8;
const DEEPEST = 3;

/** `refund({ order: A-1001, cents: 4200 })` */
function describeCall({ name, input }: Pick<MadeCall, 'name' | 'input'>): string {
  return `${shorten(name, LONGEST_NAME)}(${shorten(writeValue(input), LONGEST_CALL)})`;
}

function describeValue(value: JsonValue): string {
  return shorten(writeValue(value), LONGEST_VALUE);
}

/** A value as people read it: names and words without quotes. Its length is bounded. */
function writeValue(value: JsonValue, depth = 0): string {
  if (typeof value === 'string') return quote(shorten(value, LONGEST_VALUE));
  if (typeof value !== 'object' || value === null) return String(value);
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{ ', ' }'];
  const keys = Object.keys(value);
  if (keys.length === 0) return Array.isArray(value) ? '[]' : '{}';
  if (depth === DEEPEST) return `${open}…${close}`;
  const members = keys.slice(0, MOST_MEMBERS).map(key => {
    const member = writeValue(memberOf(value, key) ?? null, depth + 1);
    return Array.isArray(value) ? member : `${quote(shorten(key, LONGEST_NAME))}: ${member}`;
  });
  if (keys.length > MOST_MEMBERS) members.push('…');
  return `${open}${members.join(', ')}${close}`;
}

/** What can be read without quotes, and is no other kind of value. */
const PLAIN = /^(?!(?:true|false|null)$)[\p{L}_][\p{L}\p{N}_.@/-]*$/u;

function quote(text: string): string {
  return PLAIN.test(text) ? text : JSON.stringify(text);
}

function shorten(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${text.slice(0, length - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}
