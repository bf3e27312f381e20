import { address } from '../app/router.ts';
import { labelsOf, type RunSummary } from '../data/request.ts';
import { Safe } from '../ui/text.tsx';

const MOST = 3;

/** The address of the list with one more label to choose by, or one less. */
export function labelHref(label: string, isOn: boolean): string {
  const query = new URLSearchParams(address.value.search);
  const others = query.getAll('label').filter(one => one !== label);
  query.delete('label');
  for (const one of isOn ? [...others, label] : others) query.append('label', one);
  return `/runs${query.size === 0 ? '' : `?${query}`}`;
}

/** The labels of a run; a press on one chooses by it. */
export function LabelChips({ run }: { run: RunSummary }) {
  const all = labelsOf(run);
  return (
    <>
      {all.slice(0, MOST).map(label => (
        <a key={label} class="chip" href={labelHref(label, true)} title={`Only runs with ${label}`}>
          <Safe text={label} />
        </a>
      ))}
      {all.length > MOST && <span class="muted">{`+${all.length - MOST}`}</span>}
    </>
  );
}
