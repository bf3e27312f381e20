import { readStory } from '../../engine/story/read-story.ts';
import type { StoryEvent, StorySettled, TurnPart } from '../../engine/story/tell-story.ts';
import type { QualifiedCall, Question } from '../../protocol/event.ts';
import type { Item, MessageItem } from '../../protocol/item.ts';
import {
  canonicalJson,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  omitUndefined,
} from '../../protocol/json.ts';
import type { OpenQuestion } from '../../protocol/run-view.ts';
import type { Store } from '../../protocol/store.ts';
import type { ContentChunk, FinishReason, ResponseChunk, ToolChunk } from './chunk.ts';
import type { DescribeError, OthersFor, QuestionData } from './ui-message.ts';

export type WriterOptions = {
  runId: string;
  store: Store;
  messageId(number: number): string;
  describeError: DescribeError;
  othersFor?: OthersFor;
};

/** `step`: 0 before the first. `isCopy`: an outcome for those who read the earlier message with the call later. */
export type Placed = { message: number; step: number; isCopy: boolean; chunk: ContentChunk };

type Of<Type extends StoryEvent['type']> = Extract<StoryEvent, { type: Type }>;

/** What a turn shows, in order. `key` is the number of a text in the story, or the id of a call. */
type Shown =
  | { type: 'text' | 'reasoning'; key: number; text: string }
  | { type: 'call'; key: string; call: QualifiedCall }
  | { type: 'chunks'; key: null; chunks: ContentChunk[] };

/** A text with its length so far, or a call whose arguments have begun. */
type Written = Text | { type: 'call'; key: string };
type Text = { type: 'text' | 'reasoning'; key: number; id: string; length: number; isOpen: boolean };

/** `turn`: or the id of the call whose agent gave the answer. */
type Step = { turn: number | string; isComplete: boolean; written: Written[] };

type CallFacts = Pick<QualifiedCall, 'name' | 'input' | 'digest' | 'reason' | 'error'>;

type ShownCall = {
  id: string;
  call: CallFacts;
  /** The numbers of the first and of the latest message that shows the call; 0 before it is shown. */
  message: number;
  shownIn: number;
  approval: 'none' | 'asked' | 'decided' | 'elsewhere';
  /** Who decides it elsewhere. */
  others?: string;
  isInDoubt: boolean;
  /** The page gives its result. */
  isForPage?: boolean;
  /** What its tool asks the reader. */
  question?: QuestionData;
};

type Passed = { open: ShownCall; output: JsonValue };

/** The tool of the part that asks for a review of the answer. No tool of an agent can have this name. */
export const REVIEW = 'agentchart.review';

const TOO_LATE = 'It can no longer be decided.';

const NO_RESULT = 'The call has no result.';

const IN_DOUBT = 'Whether this call took effect is unknown. A person must check.';

/** The key of a text that is not part of a turn: the answer as a guardrail changed it. */
const CHANGED_ANSWER = -1;
/** The key of the text of an agent to which the conversation was handed. */
const OTHER_ANSWER = -2;

/**
 * Writes the story of a run as chunks of UI messages. The journal alone gives chunks that build the same messages as with
 * deltas.
 *
 * U1 An assistant message begins with the run, and after each message that the run receives. A step is one turn.
 * U2 If a turn has other parts than were written, or in another order, `reset-step` drops them and they are sent again.
 * U3 The outcome of a call from an earlier message is copied to that message and shown again in the current one.
 * U4 A sub-agent's calls that ask for an approval, or for a result of the page, are in the step of the call that waits for
 *    them: before its result, or at the end. Their ids are `RUN/CALL`.
 * U5 What a tool asks the reader is a part `data-question` after its call; its `questions` are gone once it is answered.
 * U6 A review is asked for as the approval of a call `REVIEW`, in the step of the answer. It goes with an answer that is
 *    taken back, and stays with one that is given.
 */
export class MessageWriter {
  readonly #options: WriterOptions;
  readonly #place: (placed: Placed) => void;
  /** The number of the current assistant message; 0 before the run's start. */
  number = 0;
  #steps = 0;
  #step: Step | null = null;
  /** The turn whose pieces are written; 0 if they belong to an earlier message. */
  #turn = 0;
  #latest: { turn: Step['turn']; shown: Shown[] } = { turn: 0, shown: [] };
  /** The calls that have no outcome, by id: those of the latest turn, and of the sub-agents' runs that it waits for. */
  readonly #calls = new Map<string, ShownCall>();
  /** The review that the latest answer has passed, if it was shown. */
  #passed: Passed | null = null;
  /** The sub-agents' runs that these calls wait for, by call. */
  readonly #below = new Map<string, string>();
  /** The call whose agent's text was written last, and the one whose text an earlier message has the beginning of. */
  #answering = '';
  #dropped = '';
  /** The last call that waited for the run of a sub-agent. */
  #waited = '';
  readonly #seqs = new Map<string, number>();
  /** How the run rests or has ended; `null` while it runs. */
  #settled: StorySettled | null = null;

  constructor(options: WriterOptions, place: (placed: Placed) => void) {
    this.#options = options;
    this.#place = place;
  }

  take(event: StoryEvent): Promise<void> | undefined {
    const child = event.type === 'call.settled' ? this.#below.get(this.#idOf(event)) : undefined;
    if (child !== undefined) return this.#readBelow(child).then(() => this.#write(event));
    this.#write(event);
    return undefined;
  }

  /** Shows the calls that still wait, ends those of a run that has ended, and returns the chunks after them. */
  async end(): Promise<ResponseChunk[]> {
    for (const open of this.#calls.values())
      if (isForReader(open) || open.approval === 'elsewhere') this.#show(open);
    for (const child of this.#below.values()) await this.#readBelow(child);
    if (this.#settled !== null && this.#settled.status !== 'waiting')
      for (const open of [...this.#calls.values()]) this.#close(open);
    return [{ type: 'finish-step' }, ...this.#describeEnd()];
  }

  /** Writes what is new in a sub-agent's run: its calls that wait for the page. */
  async #readBelow(runId: string): Promise<void> {
    const known = this.#seqs.get(runId) ?? 0;
    for (const event of await readStory(this.#options.store, { runId })) {
      if (!('seq' in event) || event.seq <= known) continue;
      this.#seqs.set(runId, event.seq);
      if (event.type === 'turn.closed') this.#follow(event, 0);
      if (/^(call|review)\./.test(event.type)) await this.take(event);
      if (event.type === 'answer.blocked') this.#endReviews(runId);
    }
  }

  #write(event: StoryEvent): void {
    switch (event.type) {
      case 'message':
        return this.#beginMessage();
      case 'state': {
        const { runId, path: state, status, why, error } = event;
        if (status === 'running') this.#settled = null;
        const data = { runId, state, status, ...omitUndefined({ why, error }) };
        return this.#emit({ type: 'data-run', id: 'run', data });
      }
      case 'turn.opened':
        this.#turn = event.turn;
        return;
      case 'text':
      case 'reasoning':
        return this.#writeText(event);
      case 'call.opened':
      case 'call.arguments':
        return this.#writeCall(event);
      case 'turn.discarded':
        return this.#discard();
      case 'turn.closed':
        return this.#closeTurn(event);
      case 'answer.changed': {
        const kept = this.#latest.shown.filter(({ type }) => type !== 'text');
        return this.#changeAnswer(kept, event.text);
      }
      case 'answer.text':
        if (event.late !== true) this.#writeAnswer(event);
        return;
      case 'answer.discarded':
        return this.#discardAnswer();
      case 'answer.taken':
        return this.#endAnswer(event);
      case 'answer.blocked':
        this.#endReviews(event.runId);
        return this.#complete(this.#latest.turn, []);
      case 'call.asked':
        return this.#ask(event);
      case 'review.asked':
        return this.#askReview(event);
      case 'review.decided':
        return this.#decideReview(event);
      case 'call.decided': {
        const { approved, reason } = event;
        return this.#respond(this.#idOf(event), { approved, ...omitUndefined({ reason }) });
      }
      case 'call.answered':
        return this.#endQuestions(this.#idOf(event));
      case 'call.progress': {
        const { callId: toolCallId, data } = event;
        return this.#emit({ type: 'data-progress', data: { toolCallId, data }, transient: true });
      }
      case 'call.suspended':
        return this.#suspend(event);
      case 'call.settled':
        return this.#settle(event);
      case 'settled':
        this.#settled = event.settled;
        return;
      case 'turn.failed':
      case 'call.started':
        return;
      case 'note':
        if (event.event.type === 'transcript.edited' || event.event.type === 'turn.edited')
          this.#endReviews(event.runId);
        return;
    }
  }

  /** What the running turn has written is dropped: the next message has the turn whole, once it is complete. */
  #beginMessage(): void {
    if (this.#answerIn(this.#step) !== undefined) this.#dropped = this.#answering;
    this.#discardAnswer();
    this.#discard();
    this.#endStep();
    this.#turn = 0;
    this.#steps = 0;
    this.number += 1;
  }

  #writeText({ type, turn, part, text, late }: Of<'text' | 'reasoning'>): void {
    if (late === true || text === '' || turn !== this.#turn) return;
    const step = this.#openStep(turn);
    const last = step.written.at(-1);
    const isSame = last !== undefined && last.type !== 'call' && last.key === part && last.isOpen;
    const written = isSame ? last : this.#beginText(step, type, part);
    written.length += text.length;
    this.#emit({ type: `${type}-delta`, id: written.id, delta: text });
  }

  /** Not once the call has waited: what its agent says may be taken back, and its approvals with it. */
  #writeAnswer({ callId, text }: Of<'answer.text'>): void {
    if (callId === this.#dropped || callId === this.#waited) return;
    this.#answering = callId;
    const step = this.#openStep(this.#latest.turn);
    const written = this.#answerIn(step) ?? this.#beginText(step, 'text', OTHER_ANSWER);
    written.length += text.length;
    this.#emit({ type: 'text-delta', id: written.id, delta: text });
  }

  #discardAnswer(): void {
    if (this.#step === null || this.#answerIn(this.#step) === undefined) return;
    if (this.#step.isComplete) this.#complete(this.#latest.turn, this.#latest.shown);
    else this.#reset(this.#step);
  }

  /**
   * In the step of the call that handed the conversation over. A page that answered its approvals, or the review of the
   * answer, has that step: the answer is in one of its own.
   */
  #endAnswer({ callId, text }: Of<'answer.taken'>): void {
    if (callId === this.#waited || this.#passed !== null) this.#latest = { turn: callId, shown: [] };
    this.#passed = null;
    const step = this.#openStep(this.#latest.turn);
    const written = this.#answerIn(step) ?? this.#beginText(step, 'text', OTHER_ANSWER);
    const delta = text.slice(written.length);
    written.length = text.length;
    if (delta !== '') this.#emit({ type: 'text-delta', id: written.id, delta });
    this.#endText(written);
    const answer = { type: 'text', key: OTHER_ANSWER, text } as const;
    this.#latest.shown = step.isComplete ? [...this.#latest.shown, answer] : [answer];
    step.isComplete = true;
  }

  #answerIn(step: Step | null): Text | undefined {
    const last = step?.written.at(-1);
    return last?.type === 'text' && last.key === OTHER_ANSWER && last.isOpen ? last : undefined;
  }

  #writeCall(event: Of<'call.opened' | 'call.arguments'>): void {
    const { turn, callId: toolCallId, late } = event;
    if (late === true || turn !== this.#turn) return;
    if (event.type === 'call.arguments')
      return this.#emit({ type: 'tool-input-delta', toolCallId, inputTextDelta: event.text });
    const step = this.#openStep(turn);
    this.#endTexts(step);
    step.written.push({ type: 'call', key: toolCallId });
    this.#emit({ type: 'tool-input-start', toolCallId, toolName: event.name });
  }

  #closeTurn(event: Of<'turn.closed'>): void {
    this.#latest = { turn: event.turn, shown: shownBy(event) };
    this.#complete(event.turn, this.#latest.shown);
    this.#calls.clear();
    this.#passed = null;
    this.#follow(event, this.number);
  }

  #follow(event: Of<'turn.closed'>, shownIn: number): void {
    for (const call of event.completed.calls) {
      if (call.error !== undefined) continue;
      const id = this.#idOf({ runId: event.runId, callId: call.callId });
      const place = { message: shownIn, shownIn };
      this.#calls.set(id, { id, call, ...place, approval: 'none', isInDoubt: false });
    }
  }

  #idOf({ runId, callId }: { runId: string; callId: string }): string {
    return runId === this.#options.runId ? callId : `${runId}/${callId}`;
  }

  #complete(turn: Step['turn'], shown: readonly Shown[]): void {
    if (shown.length === 0 && this.#step?.turn !== turn) return;
    const step = this.#openStep(turn);
    if (step.isComplete || !isBeginning(step.written, shown)) this.#reset(step);
    step.isComplete = true;
    const written = [...step.written];
    for (const [at, part] of shown.entries()) {
      if (part.type === 'chunks') for (const chunk of part.chunks) this.#emit(chunk);
      else if (part.type === 'call') this.#emit(inputChunk(part.key, part.call));
      else {
        const known = written[at];
        const text = known?.type === part.type ? known : this.#beginText(step, part.type, part.key);
        const delta = part.text.slice(text.length);
        if (delta !== '') this.#emit({ type: `${text.type}-delta`, id: text.id, delta });
        this.#endText(text);
      }
    }
  }

  #changeAnswer(before: readonly Shown[], text: string): void {
    this.#complete(this.#latest.turn, [...before, { type: 'text', key: CHANGED_ANSWER, text }]);
    if (this.#passed !== null) this.#emitPassed(this.#passed);
  }

  #openStep(turn: Step['turn']): Step {
    if (this.#step?.turn === turn) return this.#step;
    this.#endStep();
    this.#steps += 1;
    this.#step = { turn, isComplete: false, written: [] };
    this.#emit({ type: 'start-step' });
    return this.#step;
  }

  #endStep(): void {
    if (this.#step === null) return;
    this.#endTexts(this.#step);
    this.#emit({ type: 'finish-step' });
    this.#step = null;
  }

  #discard(): void {
    if (this.#step?.isComplete === false) this.#reset(this.#step);
  }

  #reset(step: Step): void {
    if (step.written.length > 0 || step.isComplete) this.#emit({ type: 'reset-step' });
    step.written = [];
  }

  #beginText(step: Step, type: Text['type'], key: number): Text {
    this.#endTexts(step);
    const number = 1 + step.written.filter(one => one.type !== 'call').length;
    const text: Text = { type, key, id: `${step.turn}-${number}`, length: 0, isOpen: true };
    step.written.push(text);
    this.#emit({ type: `${type}-start`, id: text.id });
    return text;
  }

  #endTexts({ written }: Step): void {
    for (const one of written) if (one.type !== 'call') this.#endText(one);
  }

  #endText(text: Text): void {
    if (text.isOpen) this.#emit({ type: `${text.type}-end`, id: text.id });
    text.isOpen = false;
  }

  /** Asks for an approval, again if the call was edited, or tells that a call is in doubt. */
  #ask({ runId, open: asked }: Of<'call.asked'>): void {
    const { kind, ...call } = asked;
    const open = this.#calls.get(this.#idOf({ runId, callId: call.callId }));
    if (open === undefined) return;
    if (kind === 'result') {
      open.isForPage = true;
      if (open.shownIn === 0) this.#show(open);
      return;
    }
    if (asked.kind === 'question') return this.#askQuestions(open, asked);
    if (kind === 'doubt') {
      if (!open.isInDoubt)
        this.#tell(open, () => ({ type: 'tool-output-error', toolCallId: open.id, errorText: IN_DOUBT }));
      open.isInDoubt = true;
      return;
    }
    const isEdited = open.shownIn > 0 && open.call.digest !== call.digest;
    open.call = call;
    open.approval = 'none';
    this.#show(open);
    if (isEdited) this.#tell(open, () => inputChunk(open.id, call));
    const others = this.#options.othersFor?.(asked);
    Object.assign(open, { others });
    this.#tell(open, message => this.#request(open, message));
    open.approval = others === undefined ? 'asked' : 'elsewhere';
  }

  /** Beside the call, whose output the page gives as the answer. */
  #askQuestions(open: ShownCall, asked: OpenQuestion): void {
    const { name, input, digest, reason = '', questions } = asked;
    const { id: toolCallId, call } = open;
    const othersOf = (some: OpenQuestion['questions']) =>
      this.#options.othersFor?.({ ...asked, questions: some });
    const others = othersOf(questions);
    const isEdited = open.shownIn > 0 && canonicalJson(call.input) !== canonicalJson(input);
    open.call = { ...call, input, ...(others !== undefined && { reason }) };
    this.#show(open);
    if (isEdited) this.#tell(open, () => inputChunk(toolCallId, open.call));
    Object.assign(open, { others });
    if (others !== undefined) {
      this.#tell(open, message => this.#request(open, message));
      open.approval = 'elsewhere';
      return;
    }
    const [left] = questions.flatMap(one => othersOf([one]) ?? []);
    const own = questions.filter(one => othersOf([one]) === undefined).map(shownQuestion);
    open.question = { toolCallId, name, digest, questions: own, ...omitUndefined({ waitsFor: left }) };
    this.#tellQuestion(open);
  }

  /** A `call.asked` with the questions that are left, or asked then, follows. */
  #endQuestions(toolCallId: string): void {
    const open = this.#calls.get(toolCallId);
    if (open?.approval === 'elsewhere') open.approval = 'none';
    if (open?.question === undefined) return;
    const { waitsFor, ...question } = open.question;
    open.question = { ...question, questions: [] };
    this.#tellQuestion(open);
  }

  #tellQuestion(open: ShownCall): void {
    const { question: data } = open;
    if (data !== undefined) this.#tell(open, () => ({ type: 'data-question', id: open.id, data }));
  }

  /** A preliminary output: a page posts answers only when every call of a step has an output. */
  #suspend({ childRunId, ...event }: Of<'call.suspended'>): void {
    const toolCallId = this.#idOf(event);
    this.#waited = toolCallId;
    const open = this.#calls.get(toolCallId);
    const output = { waitsFor: childRunId };
    if (open) this.#tell(open, () => ({ type: 'tool-output-available', toolCallId, output }));
    this.#below.set(toolCallId, childRunId);
  }

  #respond(toolCallId: string, answer: { approved: boolean; reason?: string }): void {
    const open = this.#calls.get(toolCallId);
    if (open?.approval === 'elsewhere' && answer.approved) open.approval = 'none';
    if (open?.approval !== 'asked') return;
    this.#tell(open, message => {
      const approvalId = this.#approvalId(message, toolCallId);
      return { type: 'tool-approval-response', toolCallId, approvalId, ...answer };
    });
    open.approval = 'decided';
  }

  #settle({ output, isError, by, ...event }: Of<'call.settled'>): void {
    const toolCallId = this.#idOf(event);
    this.#leave(toolCallId);
    const open = this.#calls.get(toolCallId);
    if (open === undefined) return;
    if (isAsking(open)) this.#endQuestions(toolCallId);
    const isUndecided = open.approval === 'asked' || open.approval === 'elsewhere';
    if (isError && (isUndecided || (by === 'denied' && open.approval === 'decided')))
      return this.#deny(open, textOf(output));
    this.#calls.delete(toolCallId);
    this.#tell(open, () => {
      if (!isError) return { type: 'tool-output-available', toolCallId, output };
      const message = textOf(output);
      const failed = { type: 'tool', code: 'tool-failed', message, toolName: open.call.name } as const;
      const isGiven = by === 'answer' || by === 'resolved' || by === 'sub-agent';
      const errorText = isGiven ? message : this.#options.describeError(failed);
      return { type: 'tool-output-error', toolCallId, errorText };
    });
  }

  /** A call that was decided elsewhere has no request, which a denied one has. */
  #deny(open: ShownCall, errorText: string): void {
    this.#respond(open.id, { approved: false });
    this.#calls.delete(open.id);
    const { id: toolCallId, approval } = open;
    this.#tell(open, () =>
      approval === 'elsewhere'
        ? { type: 'tool-output-error', toolCallId, errorText }
        : { type: 'tool-output-denied', toolCallId },
    );
  }

  /** The reader who is not asked gets no answer that may not be given. */
  #askReview({ runId, open: asked }: Of<'review.asked'>): void {
    const { callId, digest, reason, answer, output } = asked;
    const id = this.#idOf({ runId, callId });
    const others = this.#options.othersFor?.(asked);
    const input = others === undefined ? { answer, ...omitUndefined({ output }) } : {};
    const call = { name: REVIEW, input, digest, ...omitUndefined({ reason }) };
    const known = this.#calls.get(id);
    const place = { message: this.number, shownIn: 0, isInDoubt: false };
    const open: ShownCall = { ...(known ?? { id, ...place }), call, approval: 'none' };
    Object.assign(open, { others });
    this.#calls.set(id, open);
    // A step that is complete is dropped with what it has.
    if (runId === this.#options.runId) this.#openStep(this.#latest.turn).isComplete = true;
    if (open.shownIn === this.number) this.#tell(open, () => inputChunk(id, call));
    else this.#show(open);
    this.#tell(open, message => this.#request(open, message));
    open.approval = others === undefined ? 'asked' : 'elsewhere';
  }

  #decideReview({ runId, reviewId, approved, given, edited, reason }: Of<'review.decided'>): void {
    const open = this.#calls.get(this.#idOf({ runId, callId: reviewId }));
    if (open === undefined || (approved && given !== true)) return;
    this.#respond(open.id, { approved, ...omitUndefined({ reason }) });
    if (!approved) return this.#deny(open, reason ?? 'The answer was sent back.');
    this.#calls.delete(open.id);
    const output = { approved, ...omitUndefined({ edited }) };
    this.#tell(open, () => ({ type: 'tool-output-available', toolCallId: open.id, output }));
    if (runId === this.#options.runId) this.#passed = { open, output };
  }

  #emitPassed({ open: { id: toolCallId, call }, output }: Passed): void {
    this.#emit(inputChunk(toolCallId, call));
    this.#emit({ type: 'tool-output-available', toolCallId, output });
  }

  /** Ends the reviews of a run whose answer is taken back. */
  #endReviews(runId: string): void {
    for (const open of [...this.#calls.values()]) {
      const isOfRun = open.id === this.#idOf({ runId, callId: open.id.slice(open.id.indexOf('/') + 1) });
      if (isOfRun && open.call.name === REVIEW) this.#deny(open, TOO_LATE);
    }
  }

  /** Ends what is open in the sub-agent's run that a call waited for: it can no longer be decided. */
  #leave(callId: string): void {
    const child = this.#below.get(callId);
    this.#below.delete(callId);
    for (const open of child === undefined ? [] : [...this.#calls.values()]) {
      if (!open.id.startsWith(`${child}/`)) continue;
      this.#leave(open.id);
      this.#close(open);
    }
  }

  /** Ends a call that gets no outcome any more. One in doubt has an error. */
  #close(open: ShownCall): void {
    if (isAsking(open)) this.#endQuestions(open.id);
    if (open.approval === 'asked' || open.approval === 'elsewhere') this.#deny(open, TOO_LATE);
    else if (!open.isInDoubt)
      this.#tell(open, () => ({ type: 'tool-output-error', toolCallId: open.id, errorText: NO_RESULT }));
    this.#calls.delete(open.id);
  }

  #tell(open: ShownCall, chunkFor: (message: number) => ContentChunk): void {
    if (open.shownIn === 0) return;
    this.#show(open);
    this.#emit(chunkFor(this.number));
    const { message } = open;
    if (message < this.number) this.#place({ message, step: 0, isCopy: true, chunk: chunkFor(message) });
  }

  #show(open: ShownCall): void {
    if (open.shownIn === this.number) return;
    if (open.shownIn === 0) open.message = this.number;
    open.shownIn = this.number;
    this.#emit(inputChunk(open.id, open.call));
    if (open.approval === 'asked' || open.approval === 'elsewhere')
      this.#emit(this.#request(open, this.number));
    if (open.question !== undefined && isAsking(open))
      this.#emit({ type: 'data-question', id: open.id, data: open.question });
  }

  /** A preliminary output, if others decide it: a request could be answered. */
  #request({ id: toolCallId, call: { reason }, others }: ShownCall, message: number): ToolChunk {
    if (others !== undefined)
      return {
        type: 'tool-output-available',
        toolCallId,
        output: { waitsFor: others, ...omitUndefined({ reason }) },
        preliminary: true,
      };
    const approvalId = this.#approvalId(message, toolCallId);
    const request = { type: 'tool-approval-request', toolCallId, approvalId } as const;
    return { ...request, ...omitUndefined({ reason }) };
  }

  #approvalId(message: number, toolCallId: string): string {
    return approvalIdOf(this.#options.messageId(message), toolCallId);
  }

  #describeEnd(): ResponseChunk[] {
    const settled = this.#settled;
    const finish = (finishReason: FinishReason) => ({ type: 'finish', finishReason }) as const;
    switch (settled?.status) {
      case 'finished': {
        // Without `interrupted`, a page may post a message that ends with calls again.
        const endsWithCalls = this.#passed !== null || this.#latest.shown.some(({ type }) => type === 'call');
        return [finish(endsWithCalls ? 'interrupted' : finishReasonOf(settled.incomplete?.reason))];
      }
      case 'failed': {
        const errorText = this.#options.describeError({ type: 'run', ...settled.error });
        return [finish('error'), { type: 'error', errorText }];
      }
      case 'cancelled':
        return [{ type: 'abort', reason: 'The run was cancelled.' }, finish('interrupted')];
      case 'waiting': {
        const waits = [...this.#calls.values()].some(isForReader);
        const isHeld = settled.open.some(({ kind }) => kind === 'pause' || kind === 'sign-in');
        return [finish(waits && !isHeld ? 'tool-calls' : 'interrupted')];
      }
      default:
        return [finish('other')];
    }
  }

  #emit(chunk: ContentChunk): void {
    this.#place({ message: this.number, step: this.#steps, isCopy: false, chunk });
  }
}

function isForReader(open: ShownCall): boolean {
  return open.approval === 'asked' || isAsking(open) || open.isForPage === true;
}

function isAsking({ question }: ShownCall): boolean {
  return question !== undefined && question.questions.length > 0;
}

function shownQuestion({ key, message, schema, ...question }: Question): QuestionData['questions'][number] {
  const { url, expiresAt, fault } = question;
  return { key, message, schema, ...omitUndefined({ url, expiresAt, fault }) };
}

export function approvalIdOf(messageId: string, callId: string): string {
  return `${messageId}:${callId}`;
}

/** What a turn shows, in the model's order. The sources and files of a text that readers do not see are left out. */
function shownBy({ runId, turn, draft, parts, completed: { items } }: Of<'turn.closed'>): Shown[] {
  if (draft) return [];
  const isTextShown = parts.some(part => part.kind === 'text' && part.part !== null);
  const keyOf = (item: Item) => `${runId}-${turn}-${items.indexOf(item)}`;
  const chunksOf = (part: TurnPart): ContentChunk[] => {
    if (part.kind === 'item') return providerChunks(part.item, items, keyOf(part.item));
    if (part.kind !== 'text' || !isTextShown) return [];
    return part.items.flatMap(item => contentChunks(item, keyOf(item)));
  };
  const shown: Shown[] = [];
  for (const part of parts) {
    if (part.kind === 'call' && part.call !== undefined)
      shown.push({ type: 'call', key: part.call.callId, call: part.call });
    if ('part' in part && part.part !== null && part.text !== '')
      shown.push({ type: part.kind, key: part.part, text: part.text });
    const chunks = chunksOf(part);
    if (chunks.length > 0) shown.push({ type: 'chunks', key: null, chunks });
  }
  return shown;
}

/** Whether a turn's parts begin as they were written. A text that was ended cannot become longer. */
function isBeginning(written: readonly Written[], shown: readonly Shown[]): boolean {
  return written.every((one, at) => {
    const part = shown[at];
    if (part?.key !== one.key) return false;
    return one.type === 'call' || one.isOpen || (part.type === one.type && part.text.length === one.length);
  });
}

function textOf(output: JsonValue): string {
  return typeof output === 'string' ? output : JSON.stringify(output);
}

function inputChunk(toolCallId: string, { name, input, error }: CallFacts): ToolChunk {
  const call = { toolCallId, toolName: name, input };
  if (error === undefined) return { type: 'tool-input-available', ...call };
  return { type: 'tool-input-error', ...call, errorText: error };
}

function finishReasonOf(reason: string | undefined): FinishReason {
  if (reason === undefined) return 'stop';
  if (reason === 'length') return 'length';
  return reason === 'content_filter' ? 'content-filter' : 'other';
}

/* What a turn shows besides texts and calls: what the provider did, and the sources and files of its messages. */

type ProviderItem = Extract<Item, { type: 'provider_item' }>;

type Ran = { toolCallId: string | undefined; toolName: string; input: JsonValue; output: JsonValue };

/** Members of results that are only for the provider and are not shown. */
const OPAQUE = new Set(['encrypted_content', 'encrypted_stdout', 'encrypted_index', 'thoughtSignature']);

/** Other items may have the result. Returns no chunks for items without a source, file or tool. `key` makes ids unique. */
function providerChunks(
  item: Extract<TurnPart, { kind: 'item' }>['item'],
  items: readonly Item[],
  key: string,
): ContentChunk[] {
  if (item.type !== 'provider_item') return [];
  const data = dataOf(item);
  if (item.kind === 'source') return sourceOf(data, key);
  if (item.kind === 'groundingMetadata')
    return (Array.isArray(data.groundingChunks) ? data.groundingChunks : []).flatMap((chunk, index) =>
      sourceOf(chunk, `${key}-${index}`),
    );
  const others = items.flatMap(one => (one.type === 'provider_item' && one !== item ? [dataOf(one)] : []));
  const ran = ranOf(item.kind, data, others);
  if (ran === undefined) return [];
  const { toolCallId = key, toolName, input, output } = ran;
  const image = item.kind === 'image_generation_call' ? firstText(data, ['result']) : undefined;
  const mediaType = `image/${firstText(data, ['output_format']) ?? 'png'}`;
  return [
    { type: 'tool-input-available', toolCallId, toolName, input: shown(input), providerExecuted: true },
    { type: 'tool-output-available', toolCallId, output: shown(output), providerExecuted: true },
    ...(image === undefined
      ? []
      : [{ type: 'file' as const, url: `data:${mediaType};base64,${image}`, mediaType }]),
  ];
}

function contentChunks({ content }: MessageItem, key: string): ContentChunk[] {
  return content.flatMap((part, at): ContentChunk[] => {
    if (part.type === 'text')
      return (part.annotations ?? []).flatMap((one, index) => sourceOf(one, `${key}-${at}-${index}`));
    const { url } = part;
    const given = part.type === 'file' ? part.mediaType : undefined;
    const other = part.type === 'file' ? 'application/octet-stream' : 'image/png';
    return [{ type: 'file', url, mediaType: given ?? mediaTypeOf(url) ?? other }];
  });
}

function mediaTypeOf(url: string): string | undefined {
  return /^data:([\w.+-]{1,100}\/[\w.+-]{1,100})/.exec(url)?.[1];
}

function ranOf(kind: string, data: JsonObject, others: readonly JsonObject[]): Ran | undefined {
  const toolCallId = firstText(data, ['id', 'call_id', 'toolCallId']);
  const name = firstText(data, ['name', 'toolName']);
  const resultOf = (member: string) => others.find(other => other[member] === toolCallId);
  const status = { status: data.status ?? 'completed' };
  // OpenAI and xAI: one item has the call and its result.
  if (/^[\w-]{1,60}_call$/.test(kind)) {
    const input = data.input ?? data.action ?? data.queries ?? parsed(data.arguments) ?? codeIn(data);
    const output = data.results ?? data.outputs ?? data.output ?? status;
    return { toolCallId, toolName: name ?? kind.slice(0, -'_call'.length), input, output };
  }
  // Anthropic.
  if (/^(server|mcp)_tool_use$/.test(kind) && name !== undefined) {
    const output = resultOf('tool_use_id')?.content ?? status;
    return { toolCallId, toolName: name, input: data.input ?? {}, output };
  }
  // Models of the AI SDK.
  if (kind === 'tool-call' && name !== undefined) {
    const result = others.find(other => other.type === 'tool-result' && other.toolCallId === toolCallId);
    return { toolCallId, toolName: name, input: parsed(data.input) ?? {}, output: result?.result ?? status };
  }
  if (isJsonObject(data.executableCode)) {
    const { id, ...input } = data.executableCode;
    const [result] = others.flatMap(({ codeExecutionResult }) =>
      isJsonObject(codeExecutionResult) && codeExecutionResult.id === id ? [codeExecutionResult] : [],
    );
    const { id: _, ...output } = result ?? { id, ...status };
    return { toolCallId: typeof id === 'string' ? id : undefined, toolName: 'code_execution', input, output };
  }
  // Groq.
  const { executed } = data;
  if (!isJsonObject(executed)) return undefined;
  const input = parsed(executed.arguments) ?? {};
  return { toolCallId: undefined, toolName: kind, input, output: executed.output ?? status };
}

function codeIn({ code }: JsonObject): JsonValue {
  return code === undefined ? {} : { code };
}

function parsed(value: JsonValue | undefined): JsonValue | undefined {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value) as JsonValue;
  } catch {
    return value;
  }
}

function shown(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(shown);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) => (OPAQUE.has(name) ? [] : [[name, shown(inner)]])),
  );
}

function dataOf({ opaque }: ProviderItem): JsonObject {
  const { data } = opaque;
  if (!isJsonObject(data)) return {};
  for (const name of ['item', 'block', 'part']) {
    const inner = data[name];
    if (isJsonObject(inner)) return inner;
  }
  return data;
}

/** `source-url` if it has an `http` URL, else `source-document`. OpenRouter nests it in `url_citation`, Gemini in `web` or `retrievedContext`. */
function sourceOf(annotation: JsonValue, sourceId: string): ContentChunk[] {
  if (!isJsonObject(annotation)) return [];
  const nested = [annotation.url_citation, annotation.web, annotation.retrievedContext].find(isJsonObject);
  const cited = nested ?? annotation;
  const url = firstText(cited, ['url', 'uri', 'source']);
  const title = firstText(cited, ['title', 'document_title', 'filename', 'cited_text']);
  if (url !== undefined && /^https?:\/\//.test(url))
    return [{ type: 'source-url', sourceId, url, ...omitUndefined({ title }) }];
  if (title === undefined) return [];
  const filename = firstText(cited, ['filename']);
  const mediaType = firstText(cited, ['media_type', 'mediaType']) ?? 'text/plain';
  return [{ type: 'source-document', sourceId, mediaType, title, ...omitUndefined({ filename }) }];
}

function firstText(object: JsonObject, names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = object[name];
    if (typeof value === 'string' && value !== '') return value;
  }
  return undefined;
}
