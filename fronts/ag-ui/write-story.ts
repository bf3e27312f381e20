import type { StoryEvent, StorySettled } from '../../engine/story/story-event.ts';
import type { Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { callIdFor } from '../../protocol/open/answer.ts';
import type { AssistantMessage, ShownThread } from './thread.ts';
import { messagesOf, textOfOutput } from './thread.ts';
import type { AgUiEvent, Interrupt, Message } from './wire.ts';

type Of<Type extends StoryEvent['type']> = Extract<StoryEvent, { type: Type }>;

/** An attempt of a turn: the id of its message, its messages and calls, and which texts are open. */
type Attempt = {
  id: string;
  text?: AssistantMessage;
  reasoning?: Extract<Message, { role: 'reasoning' }>;
  /** By their ids for clients. */
  calls: Map<string, { function: { arguments: string } }>;
  open: Set<'text' | 'reasoning'>;
};

/** `announced`: SUBAGENT_STARTED was written, and its end was not. */
type SubAgent = Of<'agent.opened'> & { announced: boolean };

type WrittenRun = {
  subAgent?: SubAgent;
  attempt?: Attempt | undefined;
  /** The message of the latest turn's text, also if that was not shown. */
  answerId?: string;
  /** The message of an agent to which the conversation was handed, until its answer is complete. */
  said?: AssistantMessage | undefined;
};

/**
 * Writes the merged story of a run as events of AG-UI, and into the messages of its thread.
 *
 * W1 The texts of an attempt are one message, and so is its reasoning. Its calls belong to that message.
 * W2 What no longer counts is taken back with a MESSAGES_SNAPSHOT without it: AG-UI has no event that removes text, and
 *    without the snapshot two attempts would read as one answer.
 * W3 A sub-agent is announced right before its first event.
 */
export class StoryWriter {
  readonly #runId: string;
  readonly #thread: ShownThread;
  readonly #runs = new Map<string, WrittenRun>();

  constructor(runId: string, thread: ShownThread) {
    this.#runId = runId;
    this.#thread = thread;
  }

  write(told: StoryEvent): AgUiEvent[] {
    const events = this.add(told);
    const { subAgent } = this.#runOf(told.runId);
    if (subAgent === undefined) return events;
    if (events.length > 0) events.unshift(...this.#announce(subAgent));
    if (told.type === 'settled' && told.settled.status !== 'waiting' && subAgent.announced) {
      subAgent.announced = false;
      events.push(endOf(subAgent, told.settled));
    }
    return events;
  }

  /** Like `write`, for what the client has: only the thread needs it. */
  add(told: StoryEvent): AgUiEvent[] {
    const run = this.#runOf(told.runId);
    return tag(run, this.#take(told, run));
  }

  end(interrupts: readonly Interrupt[]): AgUiEvent[] {
    const runs = [...this.#runs.values()];
    const events = runs.flatMap(run => tag(run, endAttempt(run)));
    for (const { subAgent } of runs.reverse()) {
      if (subAgent?.announced !== true) continue;
      const { runId: subagentRunId } = subAgent;
      const own = interrupts.filter(interrupt => interrupt.subagentRunId === subagentRunId);
      const outcome = { type: 'suspended' as const, interruptIds: own.map(({ id }) => id) };
      events.push({ type: 'SUBAGENT_FINISHED', subagentRunId, outcome });
    }
    return events;
  }

  #runOf(runId: string): WrittenRun {
    const known = this.#runs.get(runId);
    if (known !== undefined) return known;
    const run = {};
    this.#runs.set(runId, run);
    return run;
  }

  #take(told: StoryEvent, run: WrittenRun): AgUiEvent[] {
    switch (told.type) {
      case 'agent.opened':
        run.subAgent = { ...told, announced: false };
        return [];
      case 'message':
        return this.#receive(told.items, run);
      case 'turn.opened': {
        const id = `${told.runId}-${told.turn}-${told.attempt}`;
        run.attempt = { id, calls: new Map(), open: new Set() };
        return [];
      }
      case 'text':
      case 'reasoning':
        return run.attempt && told.text !== '' ? this.#say(told, run, run.attempt) : [];
      case 'call.opened':
        return run.attempt ? this.#openCall(told, run, run.attempt) : [];
      case 'call.arguments': {
        const toolCallId = callIdFor(this.#runId, told);
        const call = run.attempt?.calls.get(toolCallId);
        if (call === undefined) return [];
        call.function.arguments += told.text;
        return [{ type: 'TOOL_CALL_ARGS', toolCallId, delta: told.text }];
      }
      case 'turn.discarded':
        return this.#discard(run, told);
      case 'turn.closed':
        if (run.attempt !== undefined) run.answerId = run.attempt.id;
        return endAttempt(run);
      case 'answer.changed': {
        const message = this.#thread.find(run.answerId ?? '');
        if (message === undefined) return this.#sayAnswer(told.text, run);
        if (message.role !== 'assistant' || message.content === told.text) return [];
        message.content = told.text;
        return [this.#thread.snapshot];
      }
      case 'answer.text':
        return this.#sayMore(told, run);
      case 'answer.discarded': {
        const { said } = run;
        run.said = undefined;
        if (said === undefined) return [];
        this.#thread.remove([said.id]);
        return [{ type: 'TEXT_MESSAGE_END', messageId: said.id }, this.#thread.snapshot];
      }
      case 'answer.taken': {
        const { said } = run;
        run.said = undefined;
        return said === undefined ? [] : [{ type: 'TEXT_MESSAGE_END', messageId: said.id }];
      }
      case 'answer.blocked': {
        const { answerId = '' } = run;
        if (this.#thread.find(answerId) === undefined) return [];
        this.#thread.remove([answerId]);
        return [this.#thread.snapshot];
      }
      case 'call.progress': {
        const value = { toolCallId: callIdFor(this.#runId, told), data: told.data };
        return [{ type: 'CUSTOM', name: 'agentchart.progress', value }];
      }
      case 'call.settled':
        return this.#settle(told, run);
      default:
        return [];
    }
  }

  #receive(items: readonly Item[], run: WrittenRun): AgUiEvent[] {
    return messagesOf(items).flatMap((message): AgUiEvent[] => {
      const { id: messageId, content: delta } = message;
      if (this.#thread.find(messageId) !== undefined) return [];
      const isText = message.role === 'user' && typeof delta === 'string';
      this.#thread.add(isText ? { ...message, ...ownerOf(run) } : message);
      if (!isText || this.#thread.isOwn(message)) return [];
      return [
        { type: 'TEXT_MESSAGE_START', messageId, role: 'user' },
        { type: 'TEXT_MESSAGE_CONTENT', messageId, delta },
        { type: 'TEXT_MESSAGE_END', messageId },
      ];
    });
  }

  #say({ type, text: delta }: Of<'text' | 'reasoning'>, run: WrittenRun, live: Attempt): AgUiEvent[] {
    const messageId = type === 'text' ? live.id : reasoningIdOf(live);
    const events = type === 'text' ? endReasoning(live) : [];
    if (!live.open.has(type)) events.push(...STARTS[type](messageId));
    live.open.add(type);
    const owner = ownerOf(run);
    if (type === 'text') {
      live.text ??= this.#thread.assistant(messageId, { content: '', ...owner });
      live.text.content = `${live.text.content ?? ''}${delta}`;
    } else {
      live.reasoning ??= this.#thread.add({ id: messageId, role: 'reasoning', content: '', ...owner });
      live.reasoning.content += delta;
    }
    events.push({ type: CONTENTS[type], messageId, delta });
    return events;
  }

  /** An answer that was held until it was checked. */
  #sayAnswer(content: string, run: WrittenRun): AgUiEvent[] {
    const { answerId: messageId } = run;
    if (messageId === undefined) return [];
    this.#thread.assistant(messageId, { content, ...ownerOf(run) });
    return [
      ...STARTS.text(messageId),
      { type: CONTENTS.text, messageId, delta: content },
      { type: 'TEXT_MESSAGE_END', messageId },
    ];
  }

  /** What the agent says to which the conversation was handed. */
  #sayMore({ runId, callId, text: delta }: Of<'answer.text'>, run: WrittenRun): AgUiEvent[] {
    const messageId = `answer_${runId}_${callId}`;
    const events = run.said === undefined ? STARTS.text(messageId) : [];
    run.said ??= this.#thread.assistant(messageId, { content: '', ...ownerOf(run) });
    run.said.content = `${run.said.content ?? ''}${delta}`;
    return [...events, { type: CONTENTS.text, messageId, delta }];
  }

  #openCall(told: Of<'call.opened'>, run: WrittenRun, live: Attempt): AgUiEvent[] {
    const { name } = told;
    const { id: parentMessageId } = live;
    const toolCallId = callIdFor(this.#runId, told);
    live.text ??= this.#thread.assistant(parentMessageId, { toolCalls: [], ...ownerOf(run) });
    live.calls.set(toolCallId, this.#thread.addCall(live.text, toolCallId, name));
    return [{ type: 'TOOL_CALL_START', toolCallId, toolCallName: name, parentMessageId }];
  }

  #discard(run: WrittenRun, { ended }: Of<'turn.discarded'>): AgUiEvent[] {
    const live = run.attempt;
    const events = endAttempt(run);
    if (ended || live === undefined || events.length === 0) return events;
    this.#thread.remove([live.id, reasoningIdOf(live)]);
    return [...events, this.#thread.snapshot];
  }

  #settle({ runId, callId, output, isError }: Of<'call.settled'>, run: WrittenRun): AgUiEvent[] {
    const toolCallId = callIdFor(this.#runId, { runId, callId });
    const messageId = `${runId}-${callId}-result`;
    if (this.#thread.find(messageId) !== undefined) return [];
    const result = { toolCallId, content: textOfOutput(output), ...(isError && { metadata: { isError } }) };
    const message = { id: messageId, role: 'tool' as const, ...result, ...ownerOf(run) };
    this.#thread.addResult(message);
    return this.#thread.isOwn(message) ? [] : [{ type: 'TOOL_CALL_RESULT', messageId, ...result }];
  }

  #announce(subAgent: SubAgent): AgUiEvent[] {
    if (subAgent.announced) return [];
    subAgent.announced = true;
    const { runId, name, parent, callId } = subAgent;
    const above = this.#runs.get(parent)?.subAgent;
    return [
      ...(above === undefined ? [] : this.#announce(above)),
      {
        type: 'SUBAGENT_STARTED',
        subagentRunId: runId,
        name,
        parentToolCallId: callIdFor(this.#runId, { runId: parent, callId }),
        ...omitUndefined({ parentSubagentRunId: above?.runId }),
      },
    ];
  }
}

const STARTS = {
  text: (messageId: string): AgUiEvent[] => [{ type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' }],
  reasoning: (messageId: string): AgUiEvent[] => [
    { type: 'REASONING_START', messageId },
    { type: 'REASONING_MESSAGE_START', messageId, role: 'reasoning' },
  ],
};
const CONTENTS = { text: 'TEXT_MESSAGE_CONTENT', reasoning: 'REASONING_MESSAGE_CONTENT' } as const;
const CANCELLED = { message: 'The run was cancelled.', code: 'cancelled' };

function ownerOf({ subAgent }: WrittenRun): { subagentRunId?: string } {
  return subAgent === undefined ? {} : { subagentRunId: subAgent.runId };
}

function tag(run: WrittenRun, events: AgUiEvent[]): AgUiEvent[] {
  if (run.subAgent === undefined) return events;
  return events.map(event => (event.type === 'MESSAGES_SNAPSHOT' ? event : { ...event, ...ownerOf(run) }));
}

function reasoningIdOf({ id }: Attempt): string {
  return `${id}-reasoning`;
}

function endReasoning(live: Attempt): AgUiEvent[] {
  if (!live.open.delete('reasoning')) return [];
  const messageId = reasoningIdOf(live);
  return [
    { type: 'REASONING_MESSAGE_END', messageId },
    { type: 'REASONING_END', messageId },
  ];
}

function endAttempt(run: WrittenRun): AgUiEvent[] {
  const live = run.attempt;
  if (live === undefined) return [];
  run.attempt = undefined;
  const events = endReasoning(live);
  if (live.open.has('text')) events.push({ type: 'TEXT_MESSAGE_END', messageId: live.id });
  for (const toolCallId of live.calls.keys()) events.push({ type: 'TOOL_CALL_END', toolCallId });
  return events;
}

function endOf({ runId: subagentRunId }: SubAgent, settled: StorySettled): AgUiEvent {
  if (settled.status === 'finished')
    return { type: 'SUBAGENT_FINISHED', subagentRunId, outcome: { type: 'success' } };
  const { message, code } = settled.status === 'failed' ? settled.error : CANCELLED;
  return { type: 'SUBAGENT_ERROR', subagentRunId, message, code };
}
