import { messagesOfRun, totalsOf } from '../../agent/thread.ts';
import { systemHost } from '../../engine/host/host.ts';
import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import { labelsOfThread } from '../../server/runs/find-thread.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { bareAgent } from '../launch.ts';
import { formatDistance, plural, showSafely } from '../render/format.ts';
import { dim } from '../render/output.ts';
import { STATUS_STYLES } from '../render/show-open.ts';
import { withExistingStore } from '../store.ts';

/** Lists threads by their latest runs. */
export const threads: Action<'threads'> = ({ label: labels, agent, text, limit, cursor, ...options }) =>
  withExistingStore(options, async ({ store, output }) => {
    const problems: string[] = [];
    const { runs, next } = await store.list({
      ...omitUndefined({ labels, agent, text, cursor }),
      limit,
      latest: true,
      onDamaged: ({ message }) => problems.push(message),
    });
    const now = systemHost.now();
    const ids = runs.map(run => showSafely([run.thread ?? '', ...labelTexts(run.labels)].join(' ')));
    const width = Math.max(...ids.map(id => id.length));
    for (const [at, latest] of runs.entries()) {
      const { status, updatedAt, title, thread: id, labels: own } = latest;
      if (output.json) output.data({ id, labels: own, latest });
      else
        output.line(
          (ids[at] ?? '').padEnd(width),
          '  ',
          { style: STATUS_STYLES[status], text: status.padEnd(9) },
          '  ',
          dim(formatDistance(updatedAt, now)),
          `  ${showSafely(title)}`,
        );
    }
    if (!output.json && runs.length === 0 && problems.length === 0) output.line('No threads match.');
    if (next !== undefined)
      output.problem(`There are more threads: repeat the command with --cursor ${next}`);
    for (const problem of problems) output.problem(problem);
    return problems.length === 0 ? EXIT.done : EXIT.failed;
  });

function labelTexts(labels: Labels): string[] {
  return Object.entries(labels).map(([name, value]) => `${name}=${value}`);
}

/** Prints the messages of a thread, its runs and what they spent. */
export const showThread: Action<'thread'> = ({ thread: id, label, ...options }) =>
  withExistingStore(options, async ({ store, output, commands }) => {
    const thread = await openThread(store, id, label);
    const runs = await thread.runs();
    const totals = totalsOf(runs);
    const messages = await messagesOfRun(store, runs.at(-1), () => []);
    if (output.json) {
      output.data({ id, labels: thread.labels, messages, runs, totals });
      return EXIT.done;
    }
    for (const message of messages) {
      const words = message.content.map(part => (part.type === 'text' ? part.text : `[${part.type}]`));
      output.line(dim(`${message.role}: `), showSafely(words.join('')));
    }
    for (const { runId, status } of runs)
      output.line({ style: STATUS_STYLES[status], text: status }, ` ${runId}`);
    output.line(
      dim(`${plural(totals.runs, 'run')}, ${plural(totals.turns, 'turn')}, ${totals.tokens} tokens.`),
    );
    const named = Object.entries(thread.labels).flatMap(([name, value]) => ['--label', `${name}=${value}`]);
    output.line(dim(`To delete it: ${commands.of('delete', '--thread', id, ...named)}`));
    return EXIT.done;
  });

/** The thread with these labels, or the only one with at least these. Throws `run-unknown` if it has no runs. */
export async function openThread(store: Store, id: string, labels: Labels = {}) {
  const found = await labelsOfThread(store, id, labels);
  const { runs } = await store.list({ thread: { id, labels: found }, limit: 1 });
  const [any]: RunRecord[] = runs;
  if (any === undefined)
    throw new EngineError(
      'run-unknown',
      `This store has no thread "${id}" with these labels. List its threads.`,
      {
        thread: id,
      },
    );
  return bareAgent(any, store).thread(id, { labels: found });
}
