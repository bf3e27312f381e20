import { useSignal } from '@preact/signals';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { formatCount, formatLine, formatPreview } from '../render/format.ts';
import { readImageText } from './picture.tsx';
import { MoreRows, ROWS, Safe } from './text.tsx';

const COLUMNS = 10;
/** Rows whose keys are looked at. */
const LOOKED_AT = 200;
const LONGEST = 120;

/** Whether a value is a list of objects with keys, as far as it is looked at. */
export function isTable(value: JsonValue): value is JsonObject[] {
  if (!Array.isArray(value) || value.length < 2) return false;
  return value
    .slice(0, LOOKED_AT)
    .every(row => isJsonObject(row) && Object.keys(row).length > 0 && readImageText(row) === null);
}

/** A list of objects: a column for each key, as long as they are few; the other keys are in the last one. */
export function ValueTable({ rows }: { rows: readonly JsonObject[] }) {
  const shown = useSignal(ROWS);
  const all = [...new Set(rows.slice(0, LOOKED_AT).flatMap(row => Object.keys(row)))];
  const columns = all.slice(0, COLUMNS);
  const others = all.length - columns.length;
  return (
    <>
      <section
        class="value-table"
        aria-label={`Table of ${formatCount(rows.length, 'row')}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reachable by keyboard.
        tabIndex={0}
      >
        <table>
          <thead>
            <tr>
              <th>#</th>
              {columns.map(name => (
                <th key={name}>
                  <Safe text={formatLine(name, LONGEST)} />
                </th>
              ))}
              {others > 0 && <th>{formatCount(others, 'other key')}</th>}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, shown.value).map((row, at) => (
              <tr key={at}>
                <td>{at}</td>
                {columns.map(name => (
                  <Cell key={name} value={row?.[name]} />
                ))}
                {others > 0 && <Cell value={without(row, columns)} />}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      <MoreRows shown={shown} count={rows.length} />
    </>
  );
}

function Cell({ value }: { value: JsonValue | undefined }) {
  const text = value === undefined ? '' : formatPreview(value, LONGEST);
  return <td class={`is-${typeof value}`}>{text !== '' && <Safe text={text} />}</td>;
}

function without(row: JsonObject, columns: readonly string[]): JsonValue {
  return omitUndefined({
    ...row,
    ...Object.fromEntries(columns.map(name => [name, undefined])),
  }) as JsonObject;
}
