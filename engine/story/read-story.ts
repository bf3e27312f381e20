import type { ChartState } from '../../machines/step.ts';
import type { Delta } from '../../protocol/effect.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import type { RunHappening } from '../events/run-events.ts';
import { stoppable } from '../events/stoppable.ts';
import { beginFold, foldEntry, loadRunAt } from '../journal/load-run.ts';
import { readJournal } from '../journal/read-journal.ts';
import { type StoryEvent, type StoryOptions, StoryTeller } from './tell-story.ts';
import { WIRE } from './tell-wire.ts';

/** Folds a run and tells its story: takes what readers get of a run, in order. */
export class Story {
  readonly #runId: string;
  readonly #teller: StoryTeller;
  /** The state after the last entry; `null` before the first. */
  state: ChartState | null;
  /** The seq of the last entry; 0 before the first. */
  seq: number;

  /** `begin`: the fold that the first entry follows; by default the run's start. */
  constructor(options: StoryOptions, begin?: { state: ChartState; seq: number }) {
    this.#runId = options.runId;
    this.#teller = new StoryTeller(options, begin?.state, WIRE);
    this.state = begin?.state ?? null;
    this.seq = begin?.seq ?? 0;
  }

  /** Returns the events of an entry or a delta; none for a repeated entry. */
  take(happening: RunHappening): StoryEvent[] {
    if (!('seq' in happening)) return this.takeDelta(happening);
    const { seq, ...event } = happening;
    if (event.type === 'run.started') return this.takeEntry({ seq, event });
    const { runId: _, ...known } = event;
    return this.takeEntry({ seq, event: known } as JournalEntry);
  }

  takeDelta(delta: Delta): StoryEvent[] {
    return this.#teller.takeDelta(delta);
  }

  /** Tells an entry. `folded`: the state after it, if that is known. Throws like `foldEntry` without it. */
  takeEntry(entry: JournalEntry, folded?: ChartState): StoryEvent[] {
    const { seq, event } = entry;
    if (seq <= this.seq) return [];
    const before = this.state;
    const after = folded ?? this.#fold(entry);
    this.state = after;
    this.seq = seq;
    return this.#teller.takeEntry(event, seq, { before, after });
  }

  #fold(entry: JournalEntry): ChartState {
    const { event } = entry;
    if (event.type === 'run.started' && this.state === null) return beginFold(event);
    return foldEntry(this.state as ChartState, entry, this.#runId);
  }
}

/** Begins a story after an entry of a stored run. Throws like `loadRun`. */
export async function beginStory(store: Store, options: StoryOptions, after: number): Promise<Story> {
  return new Story(options, after === 0 ? undefined : await loadRunAt(store, options.runId, after));
}

/** The story of what readers get of a run after entry `after`. `return()` ends a generator that waits for more. */
export function tellHappenings(
  store: Store,
  options: StoryOptions,
  after: number,
  happenings: AsyncGenerator<RunHappening>,
): AsyncGenerator<StoryEvent> {
  return stoppable(tellEach(store, options, after, happenings), () => end(happenings));
}

/** The texts of a story as they arrive, and the words of refusals. A text that its turn's entry has otherwise is not repeated. */
export function textsIn(story: AsyncGenerator<StoryEvent>): AsyncGenerator<string> {
  return stoppable(eachText(story), () => end(story));
}

async function* eachText(story: AsyncIterable<StoryEvent>): AsyncGenerator<string> {
  let isRepeated = false;
  let isShown = false;
  for await (const event of story) {
    if (event.type === 'turn.discarded') isRepeated = event.why === 'differs';
    if (event.type === 'turn.closed') {
      isRepeated = false;
      isShown = event.parts.some(part => part.kind === 'text' && part.part !== null);
      for (const part of event.draft ? [] : event.parts)
        if (part.kind === 'text' && part.refusal !== '')
          yield part.text === '' ? part.refusal : `\n\n${part.refusal}`;
    }
    if (event.type === 'answer.text') yield event.text;
    if (event.type === 'answer.changed' && !isShown) yield event.text;
    if (event.type === 'text' && !isRepeated && event.text !== '') yield event.text;
  }
}

function end(source: AsyncGenerator<unknown>): void {
  source.return(undefined).catch(() => {});
}

async function* tellEach(
  store: Store,
  options: StoryOptions,
  after: number,
  happenings: AsyncIterable<RunHappening>,
): AsyncGenerator<StoryEvent> {
  let story: Story | undefined;
  for await (const happening of happenings) {
    // A run that was restored from a snapshot has no earlier entries.
    const before = 'seq' in happening ? happening.seq - 1 : after;
    story ??= await beginStory(store, options, before);
    yield* story.take(happening);
  }
}

/** The story that the journal of a stored run tells, as far as it goes. Throws like `readPages`, and like `foldEntry`. */
export async function readStory(store: Store, options: StoryOptions): Promise<StoryEvent[]> {
  const story = new Story(options);
  const told: StoryEvent[] = [];
  for (const entry of await readJournal(store, options.runId)) told.push(...story.takeEntry(entry));
  return told;
}
