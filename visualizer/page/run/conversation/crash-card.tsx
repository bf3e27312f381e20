import { shortenOwnerName } from '../../../../protocol/owner-name.ts';
import type { Crash } from '../../model/run-story.ts';
import { formatClock, formatSpan } from '../../render/format.ts';
import { shorten, showSafely } from '../../render/show-safely.ts';
import { Icon } from '../../ui/icon.tsx';
import { useDesk } from '../desk.ts';

const FOLLOWED: Readonly<Record<string, string>> = {
  'tool.interrupted': 'was found started and without a result',
  'tool.doubted': 'is in doubt: it is unknown whether it happened',
  'tool.started': 'was started again, with the same key',
  'tool.settled': 'has a result: its tool knew what had happened',
  'doubt.resolved': 'was resolved by a person',
};

/** A process that died: the entries that it had written, and the events that followed. */
export function CrashCard({ crash }: { crash: Crash }) {
  const { model } = useDesk();
  const { gone, by, path, lastSeq, lastAt, at, running, followed } = crash;
  const name = (callId: string): string => shorten(model.story.nameOf(callId), 60);
  const shown = followed.filter(({ seq }) => seq <= model.at.value);
  return (
    <div class="block crash">
      <p>
        <strong>
          <Icon name="crash" /> {showSafely(shortenOwnerName(gone))} died or fell silent
        </strong>
        <time>{formatClock(lastAt)}</time>
      </p>
      <p>
        On disk: entry {lastSeq}, <span class="mono">{showSafely(path)}</span>
        {running.length === 0
          ? '. No call was running.'
          : `. Started, without a result: ${running.map(name).join(', ')}.`}
      </p>
      <p>
        {showSafely(shortenOwnerName(by))} took over after {formatSpan(at - lastAt)}.
      </p>
      {shown.length === 0 ? null : (
        <ul>
          {shown.map(({ seq, type, callId }) => (
            <li key={seq}>
              <button type="button" class="quiet link" onClick={() => model.choose(seq)}>
                entry {seq}
              </button>{' '}
              {name(callId)} {FOLLOWED[type] ?? showSafely(type)}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
