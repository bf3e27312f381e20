import { beginFold, foldEntry } from '../../engine/journal/load-run.ts';
import type { RunHappening } from '../../engine/run/run.ts';
import type { Call } from '../../machines/context.ts';
import type { ChartState } from '../../machines/step.ts';
import type { Delta } from '../../protocol/effect.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { AgUiEvent } from './events.ts';
import { messagesOf, textOfOutput } from './read-messages.ts';
import type { ThreadMessages } from './thread-messages.ts';

type TurnCompleted = Extract<RunEvent, { type: 'turn.completed' }>;

/** The streamed output of one attempt of a turn: the open messages and calls, and the text that the client has. */
type Attempt = {
  turn: number;
  attempt: number;
  text: string;
  reasoning: string;
  open: Set<'text' | 'reasoning'>;
  /** By the call's index in the turn. */
  calls: Map<number, { callId: string; text: string }>;
};

export type ProjectionOptions = {
  runId: string;
  /** The thread's messages. The projection adds the run's messages to them. */
  messages: ThreadMessages;
  showText(text: string): string;
  /** The run id, set for a sub-agent's run. Its events carry this id. */
  subagentRunId?: string;
};

/**
 * Folds the entries and deltas of one run into the events of AG-UI: messages, reasoning, tool calls and their results.
 * Pure: the same entries give the same messages with the same ids, with or without deltas.
 *
 * P1 Deltas only make an attempt's text appear earlier. The turn's entry supplies the text that no delta carried.
 * P2 Text of an attempt that failed is taken back with a MESSAGES_SNAPSHOT without it: AG-UI has no event that removes
 *    text, and without the snapshot both attempts would read as one answer.
 * P3 Each call has one start and one result. A call whose id is not known before its turn is complete does not stream.
 */
export class RunProjection {
  readonly runId: string;
  readonly #options: ProjectionOptions;
  #state: ChartState | null = null;
  #seq = 0;
  #attempt: Attempt | null = null;
  /** The last completed attempt. Its late deltas are ignored. */
  #over = { turn: 0, attempt: 0 };
  readonly #answered = new Set<string>();
  #items: readonly Item[] = [];
  #answerId = '';

  constructor(options: ProjectionOptions) {
    this.#options = options;
    this.runId = options.runId;
  }

  /** The state after the entries so far; `null` before the first. */
  get state(): ChartState | null {
    return this.#state;
  }

  /** The seq of the last entry; 0 before the first. */
  get seq(): number {
    return this.#seq;
  }

  /** The events for the next entry or delta of the run. */
  take(happening: RunHappening): AgUiEvent[] {
    const events = 'seq' in happening ? this.#takeEntry(happening) : this.#takeDelta(happening);
    return this.#written(events);
  }

  /** Returns the events that close the open messages and calls at the end of the stream. */
  close(): AgUiEvent[] {
    return this.#written(this.#end());
  }

  #written(events: readonly AgUiEvent[]): AgUiEvent[] {
    const { subagentRunId, messages } = this.#options;
    return events.map(event => {
      if (event.type === 'MESSAGES_SNAPSHOT') return { ...event, messages: messages.list };
      const tagged = { ...event, ...omitUndefined({ subagentRunId }) };
      messages.apply(tagged);
      return tagged;
    });
  }

  #takeDelta(delta: Delta): AgUiEvent[] {
    switch (delta.type) {
      case 'text.delta':
        return this.#isOver(delta) ? [] : this.#text(this.#at(delta), delta.text);
      case 'reasoning.delta':
        return this.#isOver(delta) ? [] : this.#reasoning(this.#at(delta), delta.text);
      case 'call.delta':
        return this.#isOver(delta) ? [] : this.#call(this.#at(delta), delta);
      case 'text.discarded':
        return this.#isOver(delta) ? [] : this.#discard();
      case 'tool.progress':
        return [custom('agentchart.progress', { toolCallId: this.#callId(delta.callId), data: delta.data })];
      case 'decided':
        return [];
    }
  }

  #takeEntry({ runId, seq, ...entry }: Extract<RunHappening, { seq: number }>): AgUiEvent[] {
    if (seq <= this.#seq) return [];
    const event = entry as RunEvent;
    const before = this.#state;
    this.#seq = seq;
    this.#state =
      event.type === 'run.started'
        ? beginFold(event)
        : foldEntry(before as ChartState, { seq, event }, this.runId);
    return [...this.#show(event, before), ...this.#showResults()];
  }

  #show(event: RunEvent, before: ChartState | null): AgUiEvent[] {
    switch (event.type) {
      case 'run.started':
        this.#items = event.input;
        return this.#receive(event.input);
      case 'message.received':
        return this.#receive(event.items);
      case 'turn.completed':
        return before === null ? [] : this.#completeTurn(event, before);
      case 'turn.failed':
        this.#over = placeOf(before as ChartState);
        return this.#state?.status === 'active' ? this.#discard() : this.#end();
      case 'run.claimed':
        return this.#discard();
      case 'run.cancelled':
        return this.#end();
      case 'finishers.completed':
        return this.#replaceAnswer(event.text);
      default:
        return [];
    }
  }

  #receive(items: readonly Item[]): AgUiEvent[] {
    const { messages } = this.#options;
    const known = messages.ids;
    return messagesOf(items).flatMap((message): AgUiEvent[] => {
      if (known.has(message.id)) return [];
      if (message.role === 'user' && typeof message.content === 'string')
        return showMessage(message.id, message.content);
      messages.add(message);
      return [];
    });
  }

  #completeTurn(event: TurnCompleted, { context }: ChartState): AgUiEvent[] {
    const { turn, config } = context;
    const live = this.#at(placeOf({ context }));
    const isVisible = config.finalAnswer === 'live' || turn.final;
    const reasoning = event.items.map(item => (item.type === 'reasoning' ? item.text : '')).join('');
    const text = turn.shown ? this.#options.showText(event.text) : '';
    const events = [
      ...this.#reasoning(live, isVisible ? restOf(reasoning, live.reasoning) : ''),
      ...this.#text(live, restOf(text, live.text)),
      ...event.calls.flatMap(({ callId, name, input }, index) => {
        const item = event.items.find(other => other.type === 'tool_call' && other.callId === callId);
        const written = item?.type === 'tool_call' ? item.arguments : JSON.stringify(input);
        const known = [...live.calls].find(([, call]) => call.callId === callId);
        const rest = restOf(written, known?.[1].text ?? '');
        if (known) return this.#call(live, { index: known[0], text: rest });
        return this.#call(live, { index: -1 - index, callId, name, text: rest });
      }),
    ];
    this.#over = placeOf({ context });
    if (live.text !== '') this.#answerId = messageIdOf(this.runId, live);
    return [...events, ...this.#end()];
  }

  /** A finisher changed the answer. */
  #replaceAnswer(text: string | undefined): AgUiEvent[] {
    const { messages, showText } = this.#options;
    if (text === undefined || !messages.setText(this.#answerId, showText(text))) return [];
    return [SNAPSHOT];
  }

  #showResults(): AgUiEvent[] {
    const { context } = this.#state as ChartState;
    const results: { callId: string; output: JsonValue; isError: boolean }[] = context.calls.flatMap(
      ({ callId, result }: Call) => (result === undefined ? [] : [{ callId, ...result }]),
    );
    if (context.transcript === this.#items && results.length === 0) return [];
    const isEdited = this.#items.some((item, index) => context.transcript[index] !== item);
    for (const item of context.transcript.slice(isEdited ? 0 : this.#items.length))
      if (item.type === 'tool_result') results.push(item);
    this.#items = context.transcript;
    return results.flatMap(({ callId, output, isError }): AgUiEvent[] => {
      if (this.#answered.has(callId)) return [];
      this.#answered.add(callId);
      return [
        {
          type: 'TOOL_CALL_RESULT',
          messageId: `${this.runId}-${callId}-result`,
          toolCallId: this.#callId(callId),
          content: textOfOutput(output),
          ...(isError && { metadata: { isError } }),
        },
      ];
    });
  }

  #text(live: Attempt, text: string): AgUiEvent[] {
    if (text === '') return [];
    live.text += text;
    const messageId = messageIdOf(this.runId, live);
    const events: AgUiEvent[] = this.#endReasoning(live);
    if (!live.open.has('text')) events.push({ type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' });
    live.open.add('text');
    return [...events, { type: 'TEXT_MESSAGE_CONTENT', messageId, delta: text }];
  }

  #reasoning(live: Attempt, text: string): AgUiEvent[] {
    if (text === '') return [];
    live.reasoning += text;
    const messageId = reasoningIdOf(this.runId, live);
    const events: AgUiEvent[] = [];
    if (!live.open.has('reasoning'))
      events.push(
        { type: 'REASONING_START', messageId },
        { type: 'REASONING_MESSAGE_START', messageId, role: 'reasoning' },
      );
    live.open.add('reasoning');
    return [...events, { type: 'REASONING_MESSAGE_CONTENT', messageId, delta: text }];
  }

  #call(
    live: Attempt,
    { index, callId, name, text }: { index: number; callId?: string; name?: string; text: string },
  ): AgUiEvent[] {
    const events: AgUiEvent[] = [];
    let call = live.calls.get(index);
    if (call === undefined) {
      if (callId === undefined || name === undefined) return [];
      call = { callId, text: '' };
      live.calls.set(index, call);
      const parentMessageId = messageIdOf(this.runId, live);
      const toolCallId = this.#callId(callId);
      events.push({ type: 'TOOL_CALL_START', toolCallId, toolCallName: name, parentMessageId });
    }
    call.text += text;
    if (text !== '')
      events.push({ type: 'TOOL_CALL_ARGS', toolCallId: this.#callId(call.callId), delta: text });
    return events;
  }

  #callId(callId: string): string {
    const { subagentRunId } = this.#options;
    return subagentRunId === undefined ? callId : `${subagentRunId}/${callId}`;
  }

  #endReasoning(live: Attempt): AgUiEvent[] {
    if (!live.open.delete('reasoning')) return [];
    const messageId = reasoningIdOf(this.runId, live);
    return [
      { type: 'REASONING_MESSAGE_END', messageId },
      { type: 'REASONING_END', messageId },
    ];
  }

  /** Ends the attempt's messages and calls. */
  #end(): AgUiEvent[] {
    const live = this.#attempt;
    if (live === null) return [];
    this.#attempt = null;
    const events = this.#endReasoning(live);
    if (live.open.has('text'))
      events.push({ type: 'TEXT_MESSAGE_END', messageId: messageIdOf(this.runId, live) });
    for (const { callId } of live.calls.values())
      events.push({ type: 'TOOL_CALL_END', toolCallId: this.#callId(callId) });
    return events;
  }

  #discard(): AgUiEvent[] {
    const live = this.#attempt;
    const ended = this.#end();
    if (live === null || ended.length === 0) return ended;
    // The end events come first, so that the snapshot after them determines the final messages.
    const written = this.#written(ended);
    this.#options.messages.remove([messageIdOf(this.runId, live), reasoningIdOf(this.runId, live)]);
    return [...written, SNAPSHOT];
  }

  #isOver({ turn, attempt }: { turn: number; attempt: number }): boolean {
    const { turn: overTurn, attempt: overAttempt } = this.#over;
    return turn < overTurn || (turn === overTurn && attempt <= overAttempt);
  }

  #at({ turn, attempt }: { turn: number; attempt: number }): Attempt {
    const live = this.#attempt;
    if (live?.turn === turn && live.attempt === attempt) return live;
    this.#attempt = { turn, attempt, text: '', reasoning: '', open: new Set(), calls: new Map() };
    return this.#attempt;
  }
}

/** A MESSAGES_SNAPSHOT. Its messages are filled in when the event is written. */
const SNAPSHOT: AgUiEvent = { type: 'MESSAGES_SNAPSHOT', messages: [] };

function placeOf({ context: { turn } }: Pick<ChartState, 'context'>): { turn: number; attempt: number } {
  return { turn: turn.number, attempt: turn.attempt };
}

function messageIdOf(runId: string, { turn, attempt }: { turn: number; attempt: number }): string {
  return `${runId}-${turn}-${attempt}`;
}

function reasoningIdOf(runId: string, place: { turn: number; attempt: number }): string {
  return `${messageIdOf(runId, place)}-reasoning`;
}

function restOf(full: string, shown: string): string {
  return full.startsWith(shown) ? full.slice(shown.length) : '';
}

function showMessage(messageId: string, delta: string): AgUiEvent[] {
  return [
    { type: 'TEXT_MESSAGE_START', messageId, role: 'user' },
    { type: 'TEXT_MESSAGE_CONTENT', messageId, delta },
    { type: 'TEXT_MESSAGE_END', messageId },
  ];
}

/** Returns a CUSTOM event, for notices without a standard AG-UI event. */
export function custom(name: string, value: JsonValue): AgUiEvent {
  return { type: 'CUSTOM', name, value };
}
