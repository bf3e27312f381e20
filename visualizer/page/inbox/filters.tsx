import { setQuery } from '../app/router.ts';
import { type InboxItem, labelsOf } from '../data/request.ts';
import { Check, Choice } from '../ui/draft-field.tsx';
import { type InboxFilter, KINDS, nameOf } from './inbox-rows.ts';

export function SearchField({ filter }: { filter: InboxFilter }) {
  return (
    <input
      type="search"
      class="inbox-search"
      aria-label="Search the inbox"
      placeholder="Search"
      value={filter.text}
      onInput={event => setQuery({ text: event.currentTarget.value || null })}
    />
  );
}

/** What to choose from: only what would leave something out, or is chosen. */
export function Filters({ filter, items }: { filter: InboxFilter; items: readonly InboxItem[] }) {
  const values = (of: (item: InboxItem) => readonly string[]): string[] =>
    [...new Set(items.flatMap(of))].sort();
  const select = (
    name: 'agent' | 'tool' | 'label' | 'kind',
    any: string,
    found: readonly string[],
    say = (value: string): string => value,
  ) => {
    const options = found.includes(filter[name]) || filter[name] === '' ? found : [filter[name], ...found];
    if (filter[name] === '' && ((found.length < 2 && name !== 'label') || found.length === 0)) return null;
    return (
      <Choice
        aria-label={name.charAt(0).toUpperCase() + name.slice(1)}
        value={filter[name]}
        options={[['', any], ...options.map(value => [value, say(value)] as const)]}
        onChoose={value => setQuery({ [name]: value || null })}
      />
    );
  };
  return (
    <search class="inbox-filters" aria-label="Filters">
      {select(
        'agent',
        'Any agent',
        values(({ agent }) => [agent]),
      )}
      {select(
        'tool',
        'Any tool',
        values(({ call }) => [nameOf(call)]),
      )}
      {select('label', 'Any label', values(labelsOf))}
      {select(
        'kind',
        'Any kind',
        values(({ kind }) => [kind]),
        kind => KINDS[kind as InboxItem['kind']] ?? kind,
      )}
      <Check label="Mine" checked={filter.mine} onCheck={isOn => setQuery({ mine: isOn ? 'true' : null })} />
    </search>
  );
}
