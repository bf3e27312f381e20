import type { EventSource } from '../../../engine/events/read-events.ts';
import { RunEvents, stampEvent } from '../../../engine/events/run-events.ts';
import { sleep } from '../../../engine/host/host.ts';
import type { JournalEntry } from '../../../protocol/event.ts';
import { ManualHost } from '../../../testing/manual-host.ts';

/** A run whose journal and deltas are written by a test. */
export class Written {
  readonly events = new RunEvents('run_1');
  readonly journal: JournalEntry[] = [];
  ended = false;
  readonly host = new ManualHost();
  looks = 0;
  readonly source: EventSource = {
    runId: 'run_1',
    events: this.events,
    lastSeq: () => this.journal.length,
    readPage: async after => this.journal.slice(after, after + 100).map(entry => stampEvent(entry, 'run_1')),
    activity: () => (this.ended ? 'ended' : 'running'),
    failure: () => null,
    refresh: async () => {
      this.looks += 1;
    },
    nap: () => sleep(this.host, 100),
  };

  /** Streams a turn with this text character by character, and journals it. */
  say(text: string, { turn, completes = true }: { turn: number; completes?: boolean }): void {
    this.append({ type: 'text.started', at: 1, generation: turn });
    this.stream(text, turn);
    if (completes) this.complete(text, turn);
  }

  stream(text: string, turn: number): void {
    for (const char of text) this.events.publishDelta({ type: 'text.delta', turn, attempt: 1, text: char });
  }

  complete(text: string, turn: number): void {
    const turnFields = {
      provider: 'p',
      model: 'm',
      finishReason: 'stop',
      text,
      items: [],
      calls: [],
    } as const;
    this.append({
      type: 'turn.completed',
      at: 1,
      generation: turn,
      usage: null,
      startedAt: 1,
      ...turnFields,
      items: [],
      calls: [],
    });
  }

  append(event: JournalEntry['event']): void {
    const entry = { seq: this.journal.length + 1, event };
    this.journal.push(entry);
    this.events.publishEntry(entry);
  }
}
