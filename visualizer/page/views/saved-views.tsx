import { signal, useSignal } from '@preact/signals';
import { address } from '../app/router.ts';
import { Button } from '../ui/button.tsx';
import { Menu } from '../ui/menu.tsx';
import { Safe } from '../ui/text.tsx';
import { Form } from '../ui/two-presses.tsx';
import { chosenColumns } from './columns.tsx';

/** A list under a name: `search` is what its address has after the path. */
type SavedView = { name: string; search: string };

const KEY = 'agentchart.views';

const views = signal(readViews());

function readViews(): SavedView[] {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? '[]');
  } catch {
    return [];
  }
}

function keepViews(kept: SavedView[]): void {
  views.value = kept;
  localStorage.setItem(KEY, JSON.stringify(kept));
}

/** The lists that this browser keeps under names, each an address that others can open too. */
export function SavedViews() {
  const name = useSignal('');
  const others = (without: string) => views.peek().filter(view => view.name !== without);
  const save = async (): Promise<null> => {
    const query = new URLSearchParams(address.peek().search);
    const columns = chosenColumns();
    if (columns !== null) query.set('columns', columns.join(','));
    const saved = { name: name.peek().trim(), search: query.size === 0 ? '' : `?${query}` };
    keepViews([...others(saved.name), saved]);
    name.value = '';
    return null;
  };
  return (
    <Menu label="Views">
      {views.value.length > 0 && (
        <ul aria-label="Saved views">
          {views.value.map(view => (
            <li key={view.name}>
              <a href={`/runs${view.search}`}>
                <Safe text={view.name} />
              </a>
              <Button
                class="quiet"
                aria-label={`Remove ${view.name}`}
                label="Remove"
                onClick={() => keepViews(others(view.name))}
              />
            </li>
          ))}
        </ul>
      )}
      <Form label="Save view" run={save} isPrimary={false}>
        <div class="field">
          <label for="view-name">Name of this view</label>
          <input
            type="text"
            id="view-name"
            maxLength={60}
            required
            value={name.value}
            onInput={event => (name.value = event.currentTarget.value)}
          />
        </div>
      </Form>
    </Menu>
  );
}
