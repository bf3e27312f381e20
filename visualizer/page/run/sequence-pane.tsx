import { useSignal, useSignalEffect } from '@preact/signals';
import { useMemo, useRef } from 'preact/hooks';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { runPath, type StreamedEvent } from '../data/request.ts';
import { type SequenceArrow, tellSequence } from '../model/sequence.ts';
import { formatCount, formatLine } from '../render/format.ts';
import { VirtualList } from '../ui/scrolling.tsx';
import { useDesk } from './desk.ts';

const ROW = 40;
const MOST_RUNS = 50;
const MOST_ENTRIES = 2_000;
const MOST_ARROWS = 2_000;
const STEP = 500;

/** Who asked whom, in a run and its sub-agents: a lane for each, and an arrow for each message, in the order of time. */
export function SequencePane() {
  const desk = useDesk();
  const { model, source } = desk;
  const { below, left } = useRunsBelow();
  const last = model.last.value;
  const isFinished = model.view.value?.status === 'finished';
  const { lanes, arrows } = useMemo(() => {
    const own = Array.from({ length: last }, (_, index) => model.entry(index + 1)).filter(
      one => one !== undefined,
    );
    return tellSequence(model.runId, new Map([[model.runId, own], ...below]), isFinished);
  }, [model, last, model.first.value, below, isFinished]);
  const at = model.at.value;
  const time = model.entry(at)?.at ?? 0;
  const isOwn = ({ runId }: SequenceArrow): boolean => runId === model.runId;
  const isLater = (one: SequenceArrow): boolean => (isOwn(one) ? one.seq > at : one.at > time);
  const current = arrows.findLastIndex(one => isOwn(one) && one.seq <= at);
  const first = Math.max(0, Math.min(current - MOST_ARROWS / 2, arrows.length - MOST_ARROWS));
  const start = Math.ceil(first / STEP) * STEP;
  const shown = arrows.slice(start, start + MOST_ARROWS);
  return (
    <div class="sequence" style={{ '--lanes': String(lanes.length) }}>
      <ol class="lanes" aria-hidden="true">
        {lanes.map((lane, index) => (
          <li key={index} class={`tone-${lane.kind}`}>
            <bdi>{formatLine(lane.name, 40)}</bdi>
          </li>
        ))}
      </ol>
      <VirtualList
        class="sequence-rows"
        label="Sequence"
        count={shown.length}
        rowHeight={ROW}
        current={current - start}
        row={index => {
          const arrow = shown[index];
          if (arrow === undefined) return null;
          const [from, to] = [lanes.indexOf(arrow.from), lanes.indexOf(arrow.to)];
          const isCurrent = index === current - start;
          const look = [
            `sent tone-${arrow.failed ? 'failed' : kindOf(arrow)}`,
            from > to && 'leftward',
            from + to >= lanes.length && 'late-label',
            arrow.to.kind === 'model' && 'pair',
            isCurrent && 'chosen',
            isLater(arrow) && 'later',
          ];
          const shared = {
            class: look.filter(Boolean).join(' '),
            style: { '--low': String(Math.min(from, to)), '--span': String(Math.abs(from - to)) },
            'aria-current': isCurrent ? ('true' as const) : undefined,
            children: <Sentence of={arrow} />,
          };
          if (!isOwn(arrow))
            return <a href={`${runPath(arrow.runId)}?at=${arrow.seq}&tab=sequence`} {...shared} />;
          return <button type="button" onClick={() => desk.goTo(arrow.seq)} {...shared} />;
        }}
      />
      <p class="legend">
        {shown.length < arrows.length &&
          `Arrows ${formatNumber(start + 1)} to ${formatNumber(start + shown.length)} of ${formatNumber(arrows.length)}. `}
        {left > 0 && `${formatCount(left, 'more run')} of sub-agents not shown. `}
        {!source.live && 'The runs of sub-agents are not in this file.'}
      </p>
    </div>
  );
}

function kindOf({ from, to }: SequenceArrow): string {
  return [to.kind, from.kind].find(kind => kind !== 'agent' && kind !== 'sub-agent') ?? 'agent';
}

/** `market-analyst asks search: {"q": "prices"}`. Where there are lanes, they show the names. */
function Sentence({ of: { from, to, says, about } }: { of: SequenceArrow }) {
  return (
    <span class="sentence">
      <bdi class="name">{formatLine(from.name, 40)} </bdi>
      <i>{says}</i>
      <bdi class="name"> {formatLine(to.name, 40)}</bdi>
      <i>: </i>
      <bdi>{about}</bdi>
    </span>
  );
}

type Below = { below: ReadonlyMap<string, readonly StreamedEvent[]>; left: number };

/** Reads the journals of the sub-agents, theirs too, and what was added to them when this run changes. */
function useRunsBelow(): Below {
  const { model, source } = useDesk();
  const found = useSignal<Below>({ below: new Map(), left: 0 });
  const reading = useRef<'idle' | 'reading' | 'again'>('idle');
  const read = async (): Promise<void> => {
    const below = new Map(found.peek().below);
    const queue = [...model.story.calls.values()].flatMap(({ told }) => told.flatMap(childOf));
    let left = 0;
    for (const runId of queue) {
      const known = below.get(runId) ?? [];
      if (!below.has(runId) && below.size >= MOST_RUNS) {
        left += 1;
        continue;
      }
      const place = { after: known.length, limit: Math.max(0, MOST_ENTRIES - known.length) };
      const more = place.limit === 0 ? null : await source.entries(runId, place).catch(() => null);
      const entries = [...known, ...(more?.entries ?? [])];
      if (entries.length > 0) below.set(runId, entries);
      queue.push(...entries.flatMap(childOf));
    }
    found.value = { below, left };
  };
  const readAll = async (): Promise<void> => {
    const isBusy = reading.current !== 'idle';
    reading.current = isBusy ? 'again' : 'reading';
    if (isBusy) return;
    await read();
    const again = reading.current === 'again';
    reading.current = 'idle';
    if (again) await readAll();
  };
  useSignalEffect(() => {
    void model.told.value;
    void model.view.value;
    if (source.live) void readAll();
  });
  return found.value;
}

function childOf(event: { type: string; childRunId?: string }): string[] {
  const isStart = event.type === 'tool.suspended' || event.type === 'call.suspended';
  return isStart && event.childRunId !== undefined ? [event.childRunId] : [];
}
