import type { ComponentChildren } from 'preact';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { callIdOf } from '../../../protocol/run-view.ts';
import { type InboxItem, requestServer, runPath } from '../data/request.ts';
import { useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import { askTotals, sumTotals } from '../data/totals.ts';
import { formatCount, formatDay } from '../render/format.ts';
import { ProblemText, Safe } from '../ui/text.tsx';
import { runsSince, startOf } from '../views/run-filter.ts';

const READ = 200;
const SHOWN = 4;
const AGAIN_MS = 1_000;

/** What waits for someone, the longest wait first. */
export function Needs({ source, hours }: { source: PageSource; hours: number }) {
  const { answer, problem, again } = useRead(() => readNeeds(hours), [hours]);
  useNews(source, ['ready', 'inbox', 'summary', 'removed'], again, AGAIN_MS);
  if (answer === null) return <ProblemText text={problem} />;
  const { waiting, items, errors } = answer;
  const signIns = items.filter(({ kind }) => kind === 'sign-in');
  const doubts = items.filter(({ kind }) => kind === 'doubt');
  const [longest] = items;
  return (
    <section class="needs" aria-label="Needs someone">
      <ProblemText text={problem} />
      <Need
        title="Waiting"
        count={waiting ?? items.length}
        isLeast={waiting === undefined}
        href="/inbox"
        none="Nothing waits for a decision."
        is="waiting"
        note={longest && `longest ${formatDuration(Date.now() - longest.since)}`}
      >
        {items.slice(0, SHOWN).map(item => (
          <li key={`${item.runId}/${callIdOf(item.call)}`}>
            <a href={runPath(item.runId)}>
              <Safe text={item.title || item.runId} />
            </a>
            <time title={`Since ${formatDay(item.since)}`}>{formatDuration(Date.now() - item.since)}</time>
          </li>
        ))}
      </Need>
      <Need
        title="In doubt"
        count={doubts.length}
        href="/runs?status=in+doubt"
        none="Every call is known to have happened or not."
        is="in-doubt"
      >
        {countBy(doubts, ({ call }) => ('name' in call ? call.name : ''))}
      </Need>
      <Need
        title="Sign-ins"
        count={signIns.length}
        href="/inbox?kind=sign-in"
        none="No tool server waits for a sign-in."
        is="waiting"
      >
        {countBy(signIns, ({ call }) => callIdOf(call))}
      </Need>
      <Need
        title="Failing"
        count={sumTotals(errors).runs}
        href={runsSince(hours, { status: 'failed' })}
        none="No run has failed in this time."
        is="failed"
      >
        {errors.slice(0, SHOWN).map(({ errorCode = '', runs }) => (
          <li key={errorCode}>
            <a href={runsSince(hours, { error: errorCode })}>
              <Safe text={errorCode} class="mono" />
            </a>
            <span>{formatCount(runs, 'run')}</span>
          </li>
        ))}
      </Need>
    </section>
  );
}

type NeedProps = {
  title: string;
  count: number;
  /** There may be more. */
  isLeast?: boolean;
  href: string;
  /** The text for an empty list. */
  none: string;
  is: string;
  note?: string | undefined;
  children: ComponentChildren;
};

function Need({ title, count, isLeast, href, none, is, note, children }: NeedProps) {
  return (
    <section class="need" aria-label={title}>
      <h2>{title}</h2>
      <p class="figure">
        <a href={href} class={count === 0 ? 'is-none' : `is-${is}`}>
          {formatNumber(count)}
          {isLeast && '+'}
        </a>{' '}
        {note && <span class="muted">{note}</span>}
      </p>
      {count === 0 ? <p class="muted">{none}</p> : <ul>{children}</ul>}
    </section>
  );
}

/** The names, the most frequent first, each with how often it is there. */
function countBy<Item>(items: readonly Item[], nameOf: (item: Item) => string): ComponentChildren {
  const counts = [...Map.groupBy(items, nameOf)].toSorted(([, one], [, other]) => other.length - one.length);
  return counts.slice(0, SHOWN).map(([name, all]) => (
    <li key={name}>
      <Safe text={name} class="mono" /> <span>{`×${formatNumber(all.length)}`}</span>
    </li>
  ));
}

async function readNeeds(hours: number) {
  const failed = new URLSearchParams({ status: 'failed', since: String(startOf(hours)) });
  const [{ items, waiting }, errors] = await Promise.all([
    requestServer<{ items: InboxItem[]; waiting?: number }>(`/inbox?limit=${READ}&order=asc`),
    askTotals('by=errorCode', failed),
  ]);
  return {
    waiting,
    items: items.toSorted((one, other) => one.since - other.since),
    errors: errors.toSorted((one, other) => other.runs - one.runs),
  };
}
