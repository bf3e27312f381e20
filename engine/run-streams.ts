import type { JournalEntry } from '../protocol/event.ts';
import type { Channel, Happening } from './channel.ts';
import { POLL_MS } from './driver.ts';
import type { Host } from './host.ts';
import type { RunHappening } from './run.ts';

export type StreamSource = {
  runId: string;
  channel: Channel;
  host: Host;
  read(after: number): Promise<JournalEntry[]>;
  /** Why nobody drives here any more, if that is so. */
  trouble(): { error: unknown } | null;
  /** Folds what others have written, and tells whether there is more to come. */
  look(): Promise<'running' | 'at-rest' | 'ended'>;
};

/** The journal behind `after`, then what happens as it does; ends when the run settles, or with `follow` when it ends. */
export async function* readEvents(
  source: StreamSource,
  { after = 0, follow = false }: { after?: number; follow?: boolean },
): AsyncGenerator<RunHappening> {
  const queue: Happening[] = [];
  let wake = () => {};
  const unsubscribe = source.channel.subscribe(happening => {
    queue.push(happening);
    wake();
  });
  try {
    let seq = after;
    for (const entry of await source.read(after)) {
      seq = entry.seq;
      yield stamp(entry, source.runId);
    }
    for (;;) {
      for (const happening of queue.splice(0)) {
        if (happening.type === 'delta') yield happening.delta;
        if (happening.type !== 'entry' || happening.entry.seq <= seq) continue;
        seq = happening.entry.seq;
        yield stamp(happening.entry, source.runId);
      }
      const status = await source.look();
      if (queue.length > 0) continue;
      const trouble = follow ? null : source.trouble();
      if (status === 'running' && trouble !== null) throw trouble.error;
      if (status === 'ended' || (status === 'at-rest' && !follow)) return;
      await new Promise<void>(resolve => {
        const cancel = source.host.setTimer(POLL_MS, resolve);
        wake = () => {
          cancel();
          resolve();
        };
      });
      wake = () => {};
    }
  } finally {
    unsubscribe();
  }
}

/** The text of the run as readers see it: of past turns from the journal, of the current one as it comes. */
export async function* readText(
  source: StreamSource,
  showText: (text: string) => string,
): AsyncGenerator<string> {
  let shown = false;
  let streamed = false;
  let completed = 0;
  for await (const event of readEvents(source, {})) {
    if (event.type === 'text.delta' && event.turn > completed) {
      streamed = true;
      yield event.text;
    }
    if (event.type === 'text.started') shown = true;
    if (event.type !== 'turn.completed' && event.type !== 'turn.failed') continue;
    if (event.type === 'turn.completed') completed += 1;
    if (event.type === 'turn.completed' && shown && !streamed) yield showText(event.text);
    shown = false;
    streamed = false;
  }
}

function stamp({ seq, event }: JournalEntry, runId: string): RunHappening {
  return { ...event, runId, seq };
}
