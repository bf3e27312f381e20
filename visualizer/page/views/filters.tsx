import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { useShortcuts } from '../app/keyboard.ts';
import { address, navigate, setQuery } from '../app/router.ts';
import { requestServer } from '../data/request.ts';
import { Button, Icon } from '../ui/button.tsx';
import { Check, Choice } from '../ui/draft-field.tsx';
import { Menu } from '../ui/menu.tsx';
import { Safe } from '../ui/text.tsx';
import { COLUMNS, chooseColumns, shownColumns } from './columns.tsx';
import { labelHref } from './label-chips.tsx';
import { type RunFilter, STATUSES } from './run-filter.ts';

const TIMES = [
  ['', 'any time'],
  ['1', 'the last hour'],
  ['24', 'the last day'],
  ['168', 'the last week'],
  ['720', 'the last month'],
] as const;

const TYPED_MS = 150;

export function RunFilters({ filter }: { filter: RunFilter }) {
  const labels = filter.labels.map(label => ({ name: 'label', label, href: labelHref(label, false) }));
  return (
    <search class="filters">
      <Search text={filter.text} />
      <AgentField agent={filter.agent} />
      <input
        type="text"
        name="label"
        aria-label="Label"
        placeholder="Label: name=value"
        onChange={event => {
          const label = event.currentTarget.value.trim();
          if (label === '') return;
          event.currentTarget.value = '';
          navigate(labelHref(label, true));
        }}
      />
      <Choice
        aria-label="Created in"
        value={filter.hours}
        options={TIMES}
        onChoose={hours => setQuery({ hours: hours || null })}
      />
      {labels.map(({ label, href }) => (
        <a key={label} class="chip is-on" href={href} aria-label={`Not only runs with ${label}`}>
          <Safe text={label} />
          <Icon name="close" />
        </a>
      ))}
      {(['model', 'error'] as const).map(
        name =>
          filter[name] !== '' && (
            <Button
              key={name}
              class="chip is-on"
              aria-label={`Not only the ${name} ${filter[name]}`}
              label={
                <>
                  <Safe text={`${name} ${filter[name]}`} />
                  <Icon name="close" />
                </>
              }
              onClick={() => setQuery({ [name]: null })}
            />
          ),
      )}
    </search>
  );
}

function Search({ text }: { text: string }) {
  const field = useRef<HTMLInputElement>(null);
  const soon = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useShortcuts('Search', [{ keys: ['/'], does: 'Search all runs', run: () => field.current?.select() }]);
  useEffect(() => {
    if (field.current !== null && document.activeElement !== field.current) field.current.value = text;
  }, [text]);
  useEffect(() => {
    if (address.peek().searchParams.has('search')) {
      field.current?.focus();
      setQuery({ search: null });
    }
    return () => clearTimeout(soon.current);
  }, []);
  return (
    <input
      ref={field}
      type="search"
      name="text"
      aria-label="Search"
      aria-keyshortcuts="/"
      placeholder="Search ids, titles, labels, inputs, answers and errors"
      defaultValue={text}
      maxLength={200}
      onInput={({ currentTarget: { value } }) => {
        clearTimeout(soon.current);
        soon.current = setTimeout(() => setQuery({ text: value || null }), TYPED_MS);
      }}
    />
  );
}

function AgentField({ agent }: { agent: string }) {
  const names = useSignal<readonly string[]>([]);
  const readNames = async (): Promise<void> => {
    if (names.peek().length > 0) return;
    const { agents } = await requestServer<{ agents: { name: string }[] }>('/agents');
    names.value = agents.map(({ name }) => name);
  };
  return (
    <>
      <input
        type="text"
        name="agent"
        list="agent-names"
        aria-label="Only of agent"
        placeholder="Agent"
        value={agent}
        onFocus={() => void readNames().catch(() => {})}
        onChange={event => setQuery({ agent: event.currentTarget.value.trim() || null })}
      />
      <datalist id="agent-names">
        {names.value.map(name => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  );
}

type Counted = Readonly<Record<string, number>> | undefined;

export function StatusChips({ filter, counts }: { filter: RunFilter; counts: Counted }) {
  return (
    <fieldset class="chips" aria-label="Status">
      {['', ...STATUSES].map(status => (
        <Button
          key={status}
          label={
            <>
              {status || 'all'}
              {counts && <span class="number">{` ${formatNumber(counts[status] ?? 0)}`}</span>}
            </>
          }
          data-is={status}
          aria-pressed={status === filter.status}
          onClick={() => setQuery({ status: status || null })}
        />
      ))}
    </fieldset>
  );
}

export function ColumnMenu({ filter }: { filter: RunFilter }) {
  const shown = shownColumns(innerWidth).map(({ name }) => name);
  const choose = (name: string, isOn: boolean): void =>
    chooseColumns(isOn ? [...shown, name] : shown.filter(one => one !== name));
  return (
    <Menu label="Columns">
      <fieldset aria-label="Columns">
        {COLUMNS.filter(({ name }) => name !== 'title').map(({ name, title }) => (
          <Check
            key={name}
            label={title}
            checked={shown.includes(name)}
            onCheck={isOn => choose(name, isOn)}
          />
        ))}
      </fieldset>
      <Check
        label="Fold threads, sessions and sub-agents"
        checked={filter.isFolded}
        onCheck={isOn => setQuery({ folded: isOn ? null : 'false' })}
      />
      <Button class="quiet" label="Reset columns" onClick={() => chooseColumns(null)} />
    </Menu>
  );
}
