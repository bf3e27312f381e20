import { systemHost } from '../../engine/host/host.ts';
import { messageOf } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { readSender, storeFile } from '../options.ts';
import { withExistingStore } from '../store.ts';
import { BoardReader } from '../watch/board.ts';
import { followBoard } from '../watch/follow-board.ts';
import { ChangePrinter } from '../watch/print-changes.ts';
import { watchOnScreen } from '../watch/watch-on-screen.ts';

/** On a terminal, the screen; else a line for each change, and no key is read. */
export const watch: Action<'watch'> = async options => {
  const { label: labels, agent, drive, db } = options;
  return await withExistingStore(options, async ({ store, output }) => {
    const sender = readSender(options);
    const reader = new BoardReader({ store, labels, person: sender.as });
    if (output.canAsk) {
      const file = storeFile(db);
      await watchOnScreen({
        store,
        reader,
        output,
        sender,
        file,
        ...omitUndefined({ agent }),
        drives: drive,
      });
      return EXIT.done;
    }
    const stop = new AbortController();
    const end = () => stop.abort();
    process.once('SIGINT', end).once('SIGTERM', end);
    process.stdout.on('error', end);
    const printer = new ChangePrinter(output);
    let problem = '';
    await followBoard(reader, stop.signal, {
      text: () => '',
      show(board) {
        problem = '';
        printer.print(board, systemHost.now());
      },
      fail(error) {
        if (messageOf(error) !== problem) output.problem(messageOf(error));
        problem = messageOf(error);
      },
    });
    return EXIT.done;
  });
};
