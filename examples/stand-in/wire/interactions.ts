import { pick } from '../../../adapters/turn/json-access.ts';
import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import { cut, type Encoder, event, type Random, type WrittenTurn } from './turn.ts';

/** Gemini's Interactions API, for interactions that are not stored. Arguments are streamed, and searches come whole. */
export const interactions: Encoder = {
  contentType: 'text/event-stream',
  whole: turn => ({ ...interactionOf(turn), steps: stepsOf(turn) }),
  stream: (turn, random) => streamOf(turn, random).map(data => event(data, String(data.event_type))),
};

function stepsOf({ reasoning, text, calls, searched }: WrittenTurn): JsonObject[] {
  const steps: JsonObject[] = [{ type: 'thought', signature: 'c2ln', ...summaryOf(reasoning) }];
  if (searched !== undefined) {
    steps.push(
      { type: 'google_search_call', id: 'search_1', arguments: { queries: [searched] } },
      { type: 'google_search_result', call_id: 'search_1', result: [{ search_suggestions: '<b>x</b>' }] },
    );
  }
  if (text !== '') steps.push({ type: 'model_output', content: [{ type: 'text', text }] });
  for (const { id, name, arguments: written } of calls) {
    steps.push({ type: 'function_call', ...omitUndefined({ id }), name, arguments: JSON.parse(written) });
  }
  return steps;
}

function summaryOf(text: string): JsonObject {
  return text === '' ? {} : { summary: [{ type: 'text', text }] };
}

function interactionOf({ model, finish, calls, usage }: WrittenTurn): JsonObject {
  const ended = calls.length > 0 ? 'requires_action' : 'completed';
  return {
    id: '',
    object: 'interaction',
    status: finish === 'stop' ? ended : 'incomplete',
    ...(finish === 'content_filter' ? { errors: [{ code: 'safety', message: 'It was blocked.' }] } : {}),
    model,
    ...(usage && {
      usage: {
        total_input_tokens: usage.input,
        total_cached_tokens: usage.cached,
        total_output_tokens: usage.output - usage.reasoning,
        total_thought_tokens: usage.reasoning,
        total_tool_use_tokens: 0,
        total_tokens: usage.input + usage.output,
      },
    }),
  };
}

function streamOf(turn: WrittenTurn, random: Random): JsonObject[] {
  const { model } = turn;
  const opening = { id: '', object: 'interaction', status: 'in_progress', model };
  return [
    { event_type: 'interaction.created', interaction: opening },
    { event_type: 'interaction.status_update', interaction_id: '', status: 'in_progress' },
    ...stepsOf(turn).flatMap((step, index) => stepEvents(step, turn, index, random)),
    { event_type: 'interaction.completed', interaction: interactionOf(turn) },
  ];
}

function stepEvents(step: JsonObject, turn: WrittenTurn, index: number, random: Random): JsonObject[] {
  const { begun, deltas } = piecesOf(step, turn, random);
  return [
    { event_type: 'step.start', index, step: begun },
    ...deltas.map(delta => ({ event_type: 'step.delta', index, delta })),
    { event_type: 'step.stop', index },
  ];
}

/** How a step begins, and what follows. The first piece of a text may be in its beginning. */
function piecesOf(
  step: JsonObject,
  { reasoning, text, calls }: WrittenTurn,
  random: Random,
): { begun: JsonObject; deltas: JsonObject[] } {
  const { type, id, call_id, name, ...rest } = step;
  const begun = omitUndefined({ type, id, call_id, name });
  const asText = (piece: string) => ({ type: 'text', text: piece });
  switch (type) {
    case 'thought': {
      const summary = cut(reasoning, random).map(
        (piece): JsonObject => ({ type: 'thought_summary', content: asText(piece) }),
      );
      return { begun, deltas: [...summary, { type: 'thought_signature', ...pick(rest, ['signature']) }] };
    }
    case 'model_output': {
      const [first = '', ...others] = cut(text, random);
      return random() < 0.5
        ? { begun: { ...begun, content: [asText(first)] }, deltas: others.map(asText) }
        : { begun, deltas: [first, ...others].map(asText) };
    }
    case 'function_call': {
      const written = calls.find(call => call.id === id && call.name === name)?.arguments ?? '{}';
      const deltas = cut(written, random).map(piece => ({ type: 'arguments_delta', arguments: piece }));
      return { begun: { ...begun, signature: '', arguments: {} }, deltas };
    }
    default:
      return { begun: { ...begun, signature: '' }, deltas: [omitUndefined({ type, ...rest })] };
  }
}
