import { systemHost } from '../../engine/host/host.ts';
import { messageOf } from '../../protocol/error.ts';
import type { Store } from '../../protocol/store.ts';
import type { Sender } from '../options.ts';
import { formatStore } from '../render/format.ts';
import type { Output } from '../render/output.ts';
import type { BoardReader } from './board.ts';
import { askAbout, decideItem, Resumer } from './decide-item.ts';
import { drawWatch } from './draw-watch.ts';
import { followBoard } from './follow-board.ts';
import { Screen } from './screen.ts';
import { WatchSession } from './watch-session.ts';

/** The shortest time between two drawings, and the longest: ages change, in ms. */
const DRAWN_MS = 100;
const AGE_MS = 1_000;
/** How long the runs that are driven here may take to rest before it is said that they are waited for, in ms. */
const QUICK_END_MS = 1_000;

type Watching = {
  store: Store;
  reader: BoardReader;
  output: Output;
  sender: Sender;
  /** The store as `--db` names it. */
  file: string;
  /** The module of the agent for runs that are resumed here. */
  agent?: string;
  drives: boolean;
};

/** Shows runs and inbox on the terminal until the person quits, then waits for the runs that are driven here. */
export async function watchOnScreen(watching: Watching): Promise<void> {
  const { store, reader, output, sender, file, agent, drives } = watching;
  const stop = new AbortController();
  const quit = () => stop.abort();
  const resumer = new Resumer(store, { file, agent, tell: message => session.tell(message) });
  const resume = (runId: string) => {
    if (drives) resumer.resumeLater(runId);
  };
  const session = new WatchSession({
    person: sender.as,
    onChange: () => painter.paint(),
    later,
    actions: {
      async decide(item, answer) {
        const outcome = await decideItem({ store, sender }, item, answer);
        if (outcome.isTaken) resume(item.runId);
        return outcome;
      },
      async ask(opened) {
        screen.leave();
        try {
          const isAnswered = await askAbout({ store, sender, output }, opened);
          if (isAnswered) resume('item' in opened ? opened.item.runId : opened.record.runId);
          return isAnswered ? '' : 'Nothing was answered.';
        } finally {
          if (!stop.signal.aborted) screen.enter();
        }
      },
      suspend() {
        screen.leave();
        process.once('SIGCONT', () => {
          screen.enter();
          painter.paint();
        });
        process.kill(process.pid, 'SIGTSTP');
      },
      quit,
    },
  });
  const screen = new Screen(
    { input: process.stdin, output: process.stdout },
    { key: key => session.press(key, systemHost.monotonic()), resize: () => painter.paint(), end: quit },
  );
  const painter = new Painter(() => {
    const drawing = {
      view: session.view,
      person: sender.as,
      store: formatStore(file),
      now: systemHost.now(),
    };
    const { lines, mostScroll } = drawWatch(drawing, screen.size);
    session.limitScroll(mostScroll);
    screen.draw(lines);
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, quit);
  try {
    screen.enter();
    await followBoard(reader, stop.signal, {
      text: () => session.filter,
      show: board => session.show(board),
      fail: error => session.fail(`The store cannot be read, trying again: ${messageOf(error)}`),
    });
  } finally {
    painter.stop();
    screen.leave();
  }
  await Promise.race([resumer.ended(), new Promise(resolve => setTimeout(resolve, QUICK_END_MS))]);
  if (resumer.driven.length > 0) {
    output.line(`Driving ${resumer.driven.join(', ')} to its next rest. Ctrl-C cancels.`);
    await resumer.ended();
  }
}

/** Calls `run` after `ms`, and after the keys that came before: timers of a process that was busy are first otherwise. */
function later(ms: number, run: () => void): () => void {
  let read: NodeJS.Immediate | undefined;
  const timer = setTimeout(() => (read = setImmediate(run)), ms);
  return () => {
    clearTimeout(timer);
    clearImmediate(read);
  };
}

/** Draws what changes, at once or `DRAWN_MS` after the drawing before, and every `AGE_MS`. */
class Painter {
  readonly #draw: () => void;
  #timer: NodeJS.Timeout | undefined;
  #dueAt = Number.POSITIVE_INFINITY;
  #drawnAt = Number.NEGATIVE_INFINITY;
  #isOver = false;

  constructor(draw: () => void) {
    this.#draw = draw;
  }

  paint(): void {
    this.#drawIn(Math.max(0, this.#drawnAt + DRAWN_MS - systemHost.monotonic()));
  }

  stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  #drawIn(ms: number): void {
    const dueAt = systemHost.monotonic() + ms;
    if (this.#isOver || dueAt >= this.#dueAt) return;
    clearTimeout(this.#timer);
    this.#dueAt = dueAt;
    this.#timer = setTimeout(() => {
      this.#dueAt = Number.POSITIVE_INFINITY;
      this.#drawnAt = systemHost.monotonic();
      this.#draw();
      this.#drawIn(AGE_MS);
    }, ms);
  }
}
