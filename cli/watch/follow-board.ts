import { systemHost } from '../../engine/host/host.ts';
import type { Board, BoardReader } from './board.ts';

const READ_MS = 300;
/** After an error, as of a database that is away. */
const RETRY_MS = 2_000;

type Follower = {
  /** The text to filter by now. */
  text(): string;
  show(board: Board): void;
  fail(error: unknown): void;
};

/** Shows the board, and again whenever it has changed, until `stop` is aborted. Errors are told, and it is read again. */
export async function followBoard(
  reader: BoardReader,
  stop: AbortSignal,
  { text, show, fail }: Follower,
): Promise<void> {
  let shown: Board | null = null;
  while (!stop.aborted) {
    let waitMs = READ_MS;
    try {
      const board = await reader.read(text(), systemHost.now());
      if (stop.aborted) return;
      if (board !== shown) show(board);
      shown = board;
    } catch (error) {
      waitMs = RETRY_MS;
      shown = null;
      if (!stop.aborted) fail(error);
    }
    await untilAborted(stop, waitMs);
  }
}

function untilAborted(stop: AbortSignal, ms: number): Promise<void> {
  return new Promise(resolve => {
    const end = () => {
      clearTimeout(timer);
      stop.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    stop.addEventListener('abort', end);
  });
}
