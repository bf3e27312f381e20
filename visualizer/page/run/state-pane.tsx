import { useSignal } from '@preact/signals';
import type { JsonValue } from '../../../protocol/json.ts';
import { diffStates, sketchValue } from '../model/state-diff.ts';
import { formatLine, showSafe } from '../render/format.ts';
import { Details } from '../ui/text.tsx';
import { Value } from '../ui/value.tsx';
import { useDesk } from './desk.ts';

const SHORT = 90;

export function StatePane() {
  const { model } = useDesk();
  const all = useSignal(false);
  const [before, after] = [model.before.value.context, model.shown.value.context];
  const { changes, changed, keys } = diffStates(before, after);
  return (
    <section class="pane">
      <h2>
        {all.value ? `State at entry ${model.at.value}` : `What entry ${model.at.value} changed`}
        <span class="muted">{all.value ? `${keys} keys` : `${changed} of ${keys} keys`}</span>
        <button type="button" class="quiet" aria-pressed={all.value} onClick={() => (all.value = !all.value)}>
          Whole state
        </button>
      </h2>
      {all.value ? (
        <ul class="state-keys">
          {Object.entries(after ?? {}).map(([key, value]) => (
            <li key={key}>
              <Details
                summary={
                  <>
                    <span class="mono">{key}</span>
                    <span class="value">{formatLine(sketchValue(value), SHORT)}</span>
                  </>
                }
              >
                {() => <Value value={value as JsonValue} path={key} />}
              </Details>
            </li>
          ))}
        </ul>
      ) : (
        <dl class="state-diff">
          {changes.map(({ key, before: was, after: is }) => (
            <div key={key}>
              <dt class="mono">{breakAtDots(key)}</dt>
              <dd>
                {was !== undefined && <del>{formatLine(sketchValue(was), SHORT)}</del>}
                {is !== undefined && <ins>{formatLine(sketchValue(is), SHORT)}</ins>}
              </dd>
            </div>
          ))}
        </dl>
      )}
      {!all.value && changes.length === 0 && (
        <p class="muted">Nothing: this entry is not part of the state.</p>
      )}
    </section>
  );
}

function breakAtDots(path: string) {
  return path.split('.').map((name, place) => (
    <span key={`${place} ${name}`}>
      {place === 0 ? '' : '.'}
      <wbr />
      {showSafe(name)}
    </span>
  ));
}
