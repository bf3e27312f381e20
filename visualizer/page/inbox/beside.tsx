import { formatCost } from '../../../protocol/listing/cost.ts';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import type { Excerpt } from '../../../protocol/run-view.ts';
import { type InboxItem, type OpenedItem, requestServer, runPath } from '../data/request.ts';
import { useRead } from '../data/server-watch.ts';
import { describeShownCall } from '../render/describe-call.ts';
import { formatCount, formatLine, formatMoment, joinFacts } from '../render/format.ts';
import { Safe } from '../ui/text.tsx';
import { addressOf } from './inbox-rows.ts';

/** The longest line in characters. */
const LONGEST = 300;

/** What came before an item: who asked, what its run has spent, its last messages, equal calls and decisions. */
export function Beside({ item }: { item: InboxItem }) {
  const { runId, call, spent, startedBy } = item;
  const { answer } = useRead(() => requestServer<OpenedItem>(addressOf(item)), []);
  if (answer === null) return null;
  const { before, equal, decisions } = answer;
  const facts = joinFacts(
    startedBy !== undefined && `asked by ${startedBy}`,
    formatCount(spent.turns, 'turn'),
    `${formatNumber(spent.tokens)} tokens`,
    spent.cost > 0 && formatCost(spent.cost),
    `${formatDuration(spent.activeMs)} at work`,
  );
  const tool = 'name' in call ? call.name : '';
  const another = 'name' in call ? describeShownCall(tool, call.input) : '';
  return (
    <section class="beside" aria-label="What came before">
      <h3>Before it</h3>
      <Safe in="p" class="muted" text={facts} />
      <Told told={before} say={({ type, name = type, text }) => `${name}: ${text}`} of={runId} />
      <Told
        title="Equal calls done before"
        told={equal}
        say={({ isError, text }) => `another ${another}${isError ? ', which failed' : ''}: ${text}`}
        of={runId}
      />
      <Told
        title="Earlier decisions on this tool"
        told={decisions}
        say={({ by = 'A person', type, input, text }) =>
          `${by} ${DECIDED[type]} ${input === undefined ? tool : describeShownCall(tool, input)}${text && `: ${text}`}`
        }
        of={runId}
      />
    </section>
  );
}

const DECIDED = { approve: 'approved', reject: 'rejected', answer: 'answered' } as const;

type ToldProps<Its> = { title?: string; told: readonly Its[]; say(one: Its): string; of: string };

/** `of`: the run whose own entries name no run. */
function Told<Its extends Excerpt & { runId?: string }>({ title, told, say, of }: ToldProps<Its>) {
  if (told.length === 0) return null;
  return (
    <>
      {title && <h3>{title}</h3>}
      <ol>
        {told.map(one => {
          const { runId = of, seq, at, isCut } = one;
          return (
            <li key={`${runId}/${seq}`}>
              <a href={`${runPath(runId)}?at=${seq}`}>
                {formatMoment(at)}
                {runId !== of && ` in ${runId}`}
              </a>{' '}
              <Safe text={formatLine(say(one) + (isCut ? '…' : ''), LONGEST)} />
            </li>
          );
        })}
      </ol>
    </>
  );
}
