import type { Signal } from '@preact/signals';
import { mayOperate } from '../data/caller.ts';
import { comparePath, describeThrown, requestServer } from '../data/request.ts';
import { formatCount } from '../render/format.ts';
import { Button } from '../ui/button.tsx';
import { ActionButton } from '../ui/two-presses.tsx';

const MOST_AT_ONCE = 100;

type BulkProps = { chosen: Signal<ReadonlySet<string>>; notice: Signal<string> };

type BulkAnswer = { results: { runId: string; accepted: boolean; message?: string }[] };

/** What can be done with the chosen runs, while there are any. */
export function Bulk({ chosen, notice }: BulkProps) {
  const ids = [...chosen.value];
  if (ids.length === 0 || !mayOperate()) return null;
  const submit = async (type: 'cancel' | 'resume', done: string): Promise<void> => {
    try {
      const results: BulkAnswer['results'] = [];
      for (let at = 0; at < ids.length; at += MOST_AT_ONCE) {
        const part = ids.slice(at, at + MOST_AT_ONCE);
        results.push(
          ...(await requestServer<BulkAnswer>('/runs/bulk', { runs: part, command: { type } })).results,
        );
      }
      const refused = results.filter(({ accepted }) => !accepted);
      const first = refused[0]?.message ?? '';
      notice.value = `${formatCount(results.length - refused.length, 'run')} ${done}.${refused.length === 0 ? '' : ` ${formatCount(refused.length, 'run')} refused: ${first}`}`;
      chosen.value = new Set();
    } catch (error) {
      notice.value = describeThrown(error);
    }
  };
  return (
    <fieldset class="bulk" aria-label="Chosen runs">
      <span>{formatCount(ids.length, 'run')} chosen</span>
      <ActionButton label="Resume" act={() => submit('resume', 'resumed')} />
      <ActionButton
        label="Cancel"
        class="danger"
        confirm={() => 'Really cancel them?'}
        act={() => submit('cancel', 'cancelled')}
      />
      {ids.length === 2 && <a href={comparePath(ids[0] ?? '', ids[1] ?? '')}>Compare</a>}
      <Button class="quiet" label="Clear" onClick={() => (chosen.value = new Set())} />
    </fieldset>
  );
}
