import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { address, setQuery } from '../app/router.ts';
import type { RunModel } from '../model/run-model.ts';
import { describeShownEvent } from '../render/describe-event.ts';
import { formatDay, formatLine, formatTimeOfDay } from '../render/format.ts';
import { Icon } from '../ui/button.tsx';
import { Choice } from '../ui/draft-field.tsx';
import { VirtualList } from '../ui/scrolling.tsx';
import { useDesk } from './desk.ts';

const ROW = 30;
const ERRORS = 'errors';

export function JournalPane() {
  const desk = useDesk();
  const { model, source } = desk;
  const chosenType = useSignal(address.peek().searchParams.get('type') ?? '');
  const { story } = model;
  const at = model.at.value;
  const last = model.last.value;
  const type = chosenType.value;
  const choose = (chosen: string): void => {
    chosenType.value = chosen;
    if (source.live) setQuery({ type: chosen || null });
  };
  const counts = useMemo(() => countTypes(model), [last, model.first.value]);
  const shown = useMemo(() => filterEntries(model, type), [type, last, model.first.value]);
  const nameCall = (callId: string): string => formatLine(story.nameOf(callId), 60);
  const options = [
    ['', `all entries (${formatNumber(last)})`],
    [ERRORS, `errors (${formatNumber(story.errors.length)})`],
    ...[...counts].sort().map(([name, count]) => [name, `${name} (${formatNumber(count)})`] as const),
  ] as const;
  return (
    <>
      <label class="journal-filter" for="journal-type">
        <span class="muted">Show</span>
        <Choice id="journal-type" value={type} options={options} onChoose={choose} />
      </label>
      <VirtualList
        key={type}
        class="journal"
        label="Journal"
        count={shown?.length ?? last}
        rowHeight={ROW}
        current={shown === null ? at - 1 : shown.findLastIndex(seq => seq <= at)}
        row={index => {
          const seq = shown?.[index] ?? index + 1;
          const event = model.entry(seq);
          if (event === undefined) return <p class="entry muted">{seq} …</p>;
          return (
            <button
              type="button"
              class={`entry ${seq === at ? 'chosen' : ''} ${seq > at ? 'later' : ''}`}
              aria-current={seq === at ? 'true' : undefined}
              onClick={() => desk.goTo(seq)}
            >
              <span class="seq">{seq}</span>
              <span class="type">
                {event.type === 'run.claimed' && event.replaces !== undefined && <Icon name="crash" />}
                {event.type}
              </span>
              <bdi class="about">{describeShownEvent(event, nameCall)}</bdi>
              <time title={formatDay(event.at)}>{formatTimeOfDay(event.at)}</time>
            </button>
          );
        }}
      />
    </>
  );
}

function countTypes(model: RunModel): Map<string, number> {
  const counts = new Map<string, number>();
  for (let seq = 1; seq <= model.last.peek(); seq += 1) {
    const { type = '' } = model.entry(seq) ?? {};
    if (type !== '') counts.set(type, (counts.get(type) ?? 0) + 1);
  }
  return counts;
}

/** The entries of a type, in order; `null` for all. */
function filterEntries(model: RunModel, type: string): readonly number[] | null {
  if (type === '') return null;
  if (type === ERRORS) return [...model.story.errors];
  const all = Array.from({ length: model.last.peek() }, (_, place) => place + 1);
  return all.filter(seq => model.entry(seq)?.type === type);
}
