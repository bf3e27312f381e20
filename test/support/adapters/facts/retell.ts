import type { Item } from '../../../../protocol/item.ts';
import { canonicalJson } from '../../../../protocol/json.ts';
import { userMessage } from '../../../../protocol/message.ts';
import type { ModelTurn } from '../../../../protocol/turn.ts';
import type { Fact } from './fact.ts';

/** The transcript of a recorded request, as a run would hold it. */
export type Retold = {
  instructions: string | undefined;
  transcript: Item[];
  /** The matched turns, by their index in the given list. */
  turns: number[];
};

/**
 * Builds the transcript of a recorded request: user messages and tool results as recorded, model output from
 * `turns`. Model output that is in none of the turns (invented by the recorded client) becomes items without
 * opaque data.
 */
export function retell(facts: readonly Fact[], turns: readonly ModelTurn[]): Retold {
  const [first, ...rest] = facts;
  const hasInstructions = first?.type === 'instruction';
  const retold: Retold = {
    instructions: hasInstructions ? first.text : undefined,
    transcript: [],
    turns: [],
  };
  const callIds = new Map<string, string>();
  for (const segment of segmentsOf(hasInstructions ? rest : facts)) {
    if (!isModels(segment[0])) {
      for (const fact of segment) retold.transcript.push(inputItem(fact, retold.transcript, callIds));
      continue;
    }
    const from = (retold.turns.at(-1) ?? -1) + 1;
    const place = turns.findIndex((turn, at) => at >= from && isFrom(segment, turn));
    const turn = turns[place];
    if (turn === undefined) retold.transcript.push(...segment.flatMap(modelItem));
    else {
      retold.turns.push(place);
      retold.transcript.push(...turn.items);
      for (const [index, call] of segment.filter(fact => fact.type === 'call').entries()) {
        if (call.id !== '') callIds.set(call.id, turn.toolCalls[index]?.callId ?? call.id);
      }
    }
  }
  return retold;
}

/** Groups of adjacent facts made by the model, or by others. */
function segmentsOf(facts: readonly Fact[]): Fact[][] {
  const segments: Fact[][] = [];
  for (const fact of facts) {
    const last = segments.at(-1);
    if (last && isModels(last[0]) === isModels(fact)) last.push(fact);
    else segments.push([fact]);
  }
  return segments;
}

function isModels(fact: Fact | undefined): boolean {
  return fact !== undefined && !['instruction', 'user', 'result'].includes(fact.type);
}

/** Whether the turn contains this fact group: its calls, or without calls its opaque data or its text. */
function isFrom(segment: readonly Fact[], turn: ModelTurn): boolean {
  const calls = segment.filter(fact => fact.type === 'call');
  if (calls.length > 0 || turn.toolCalls.length > 0) {
    const made = turn.toolCalls.map(({ name, input }) => canonicalJson([name, input ?? null]));
    return (
      calls.length === made.length &&
      calls.every(({ name, input }) => made.includes(canonicalJson([name, input])))
    );
  }
  const kept = JSON.stringify(turn.items);
  const text = segment.flatMap(fact => (fact.type === 'text' ? fact.text : [])).join('');
  return (
    segment.some(fact => fact.type === 'opaque' && kept.includes(JSON.stringify(fact.text))) ||
    (text !== '' && text.trim() === turn.text.trim())
  );
}

function inputItem(fact: Fact, transcript: readonly Item[], callIds: Map<string, string>): Item {
  switch (fact.type) {
    case 'instruction':
      return { type: 'message', role: 'system', content: [{ type: 'text', text: fact.text }] };
    case 'result': {
      const callId = callIds.get(fact.id) ?? fact.id;
      const taken = new Set(transcript.flatMap(item => (item.type === 'tool_result' ? item.callId : [])));
      const open = transcript.find(item => item.type === 'tool_call' && !taken.has(item.callId));
      const known = transcript.some(item => item.type === 'tool_call' && item.callId === callId);
      const nameless = open?.type === 'tool_call' ? open.callId : callId;
      return { type: 'tool_result', callId: known ? callId : nameless, output: fact.output, isError: false };
    }
    default:
      return userMessage(fact.type === 'user' ? fact.text : '');
  }
}

function modelItem(fact: Fact, index: number): Item[] {
  switch (fact.type) {
    case 'text':
      return [{ type: 'message', role: 'assistant', content: [{ type: 'text', text: fact.text }] }];
    case 'thought':
      return [{ type: 'reasoning', text: fact.text }];
    case 'call':
      return [
        {
          type: 'tool_call',
          callId: fact.id || `unnamed_${index}`,
          name: fact.name,
          arguments: JSON.stringify(fact.input),
        },
      ];
    default:
      return [];
  }
}
