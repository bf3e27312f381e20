import type { ComponentChildren } from 'preact';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import type { Usage } from '../../../protocol/turn.ts';
import { describeBreak, describeReplaced } from '../../describe-event.ts';
import { type CallRecord, factsAt } from '../model/call-facts.ts';
import type { RunModel } from '../model/run-model.ts';
import type { BreakRecord, CompactionRecord, TurnRecord } from '../model/run-story.ts';
import { ACTIVITY_NAMES, type ActivityKind, type TimeLine } from '../model/time-line.ts';
import { describeInputs } from '../render/describe-call.ts';
import { formatLine, formatUsage, joinFacts } from '../render/format.ts';
import { VirtualList } from '../ui/scrolling.tsx';
import { useDesk } from './desk.ts';

const ROW = 28;

export function WaterfallPane() {
  const desk = useDesk();
  const { model } = desk;
  const line = desk.timeLine.value;
  const { story } = model;
  const at = model.at.value;
  const now = story.activities.at(-1)?.at ?? 0;
  const { rows } = story;
  const current = rows.findLastIndex(({ seq }) => seq <= at);
  const used = new Set(line.spans.map(({ kind }) => kind));
  const ticks = ticksOf(line);
  return (
    <>
      <p class="axis" aria-hidden="true">
        <span class="bar-track">{drawTicks(ticks, true)}</span>
      </p>
      <VirtualList
        class="waterfall"
        label="Waterfall"
        count={rows.length}
        rowHeight={ROW}
        current={current}
        row={index => {
          const row = rows[index];
          if (row === undefined) return null;
          const { seq } = row;
          const { name, what, spans, label } = describeRow(row, model, now);
          const isBreak = 'broken' in row;
          return (
            <button
              type="button"
              class={`fall ${isBreak ? 'broken' : ''} ${index === current ? 'chosen' : ''} ${seq > at ? 'later' : ''}`}
              aria-current={index === current ? 'true' : undefined}
              onClick={() => desk.goTo(seq)}
            >
              <span class="name mono">{name}</span>
              <span class="what" title={what}>
                {what}
              </span>
              {!isBreak && <Bars line={line} ticks={ticks} spans={spans} label={label} />}
            </button>
          );
        }}
      />
      <p class="legend">
        {ACTIVITY_NAMES.filter(([kind]) => used.has(kind)).map(([kind, name]) => (
          <span key={kind}>
            <i class={`activity tone-${kind}`} /> {name}
          </span>
        ))}
        <span>The axis leaves rests out.</span>
      </p>
    </>
  );
}

type Row = { name: string; what: string; spans: readonly Span[]; label: string };

function describeRow(
  row: BreakRecord | TurnRecord | CompactionRecord | CallRecord,
  model: RunModel,
  now: number,
): Row {
  if ('told' in row) return describeCall(model, row, now);
  if (!('broken' in row)) return describeRequest(row);
  return { name: 'prefix', what: describeBreak(row.broken, row.cost), spans: [], label: '' };
}

function describeRequest(row: TurnRecord | CompactionRecord): Row {
  const { cost } = row;
  const event = 'ended' in row ? row.ended : row.compaction;
  const { startedAt: from, at: to } = event;
  const usage = 'usage' in event ? event.usage : null;
  const attempt = 'attempt' in row ? `attempt ${row.attempt} ` : '';
  const what = joinFacts(
    'error' in event && `${attempt}failed: ${formatLine(event.error.code, 40)}`,
    event.type === 'turn.failed' && event.broken !== undefined && `prefix broken by ${event.broken.by}`,
    event.type === 'transcript.compacted' && `${describeReplaced(event)} replaced`,
    'tokens' in row && row.tokens > 0 && `of ${formatNumber(row.tokens)} tok`,
    usage && formatUsage(usage, 'tok'),
    usage && describeShare(usage),
    cost > 0 && formatCost(cost),
  );
  const spans = [{ kind: 'error' in event ? 'failed' : 'model', from, to } as const];
  const name = 'turn' in row ? `turn ${row.turn}` : 'compact';
  return { name, what, spans, label: formatDuration(to - from) };
}

/** How much of the request came from a cache, if the provider reports it. */
function describeShare({ inputTokens, cachedInputTokens: cached }: Usage): string | null {
  return cached === null || inputTokens === 0 ? null : `${Math.round((100 * cached) / inputTokens)}% cached`;
}

function describeCall(model: RunModel, record: CallRecord, now: number): Row {
  const source = { folded: model.fold, progress: model.progress.value, isAtEnd: true };
  const facts = factsAt(record, model.last.value, source);
  const spans = facts.spans.map(span => ({ ...span, to: span.to ?? now }));
  const [first, last] = [spans[0], spans.at(-1)];
  return {
    name: formatLine(record.call.name, 24),
    what:
      facts.outcome === ''
        ? formatLine(describeInputs(record.call.input), 50)
        : formatLine(facts.outcome, 60),
    spans,
    label: first === undefined || last === undefined ? '' : formatDuration(last.to - first.from),
  };
}

/** `from` and `to` in ms since the epoch. */
type Span = { kind: ActivityKind | 'failed'; from: number; to: number };

type BarsProps = { line: TimeLine; ticks: readonly Tick[]; spans: readonly Span[]; label: string };

function Bars({ line, ticks, spans, label }: BarsProps) {
  const end = spans.length === 0 ? 0 : Math.max(...spans.map(({ to }) => line.placeOfTime(to)));
  return (
    <span class="bar-track">
      {drawTicks(ticks)}
      {spans.map(({ kind, from, to }) => {
        const start = line.placeOfTime(from);
        const width = Math.max(0.003, line.placeOfTime(to) - start);
        return (
          <i
            key={`${kind} ${from}`}
            class={`activity tone-${kind}`}
            style={{ '--from': String(start), '--width': String(width) }}
          />
        );
      })}
      <span class="took" style={{ '--from': String(end) }}>
        {label}
      </span>
    </span>
  );
}

type Tick = { place: number; label: string };

const UNITS = [
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
  [1, 'ms'],
] as const;

/** Two to six round times at work, the first of them 0. */
function ticksOf(line: TimeLine): Tick[] {
  const [unit, name] = UNITS.find(([unit]) => line.workMs >= 2 * unit) ?? UNITS[3];
  const count = Math.max(1, line.workMs / unit);
  const power = 10 ** Math.floor(Math.log10(count / 5));
  const step = power * ([1, 2, 5].find(times => count <= 5 * times * power) ?? 10);
  return Array.from({ length: Math.floor(count / step) + 1 }, (_, index) => ({
    place: line.placeOfWork(index * step * unit),
    label: index === 0 ? '0' : `${formatNumber(index * step)} ${name}`,
  }));
}

function drawTicks(ticks: readonly Tick[], isAxis = false): ComponentChildren {
  return ticks.map(({ place, label }) => (
    <i key={label} class="tick" style={{ '--from': String(place) }}>
      {isAxis && label}
    </i>
  ));
}
