import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { describeThrown } from '../data/request.ts';
import { formatJson, showSafe } from '../render/format.ts';
import { type Confirmation, Form } from './two-presses.tsx';

/** A text that is kept over a reload until it is sent. `key` names the field. */
export function useDraft(key: string, start = ''): Signal<string> {
  return useSignal(readDraft(key) ?? start);
}

type TextFieldProps = {
  label: string;
  value: string;
  onText(text: string): void;
  rows?: number;
  mono?: boolean;
  required?: boolean;
  spoken?: boolean;
  placeholder?: string;
  problem?: string;
  /** Texts to choose from, of a field with one row. */
  options?: readonly string[];
};

export function TextField({ label, onText, rows = 1, mono = false, problem = '', ...props }: TextFieldProps) {
  const { value, required = false, spoken, placeholder = '', options } = props;
  const id = useId();
  const shared = {
    id,
    value,
    required,
    placeholder,
    class: mono ? 'mono' : '',
    onInput: ({ currentTarget }: { currentTarget: { value: string } }) => onText(currentTarget.value),
    ...faultOf(id, problem),
  };
  return (
    <Labelled id={id} label={label} problem={problem} spoken={spoken}>
      {rows === 1 ? (
        <input type="text" maxLength={2_000} {...shared} list={options && `${id}-options`} />
      ) : (
        <textarea rows={rows} spellcheck={!mono} {...shared} />
      )}
      {options && (
        <datalist id={`${id}-options`}>
          {options.map(option => (
            <option key={option} value={option} />
          ))}
        </datalist>
      )}
    </Labelled>
  );
}

type LabelledProps = {
  id: string;
  label: string;
  problem?: string;
  spoken?: boolean | undefined;
  children: ComponentChildren;
};

/** A field between its label and what is wrong with it. */
export function Labelled({ id, label, problem = '', spoken, children }: LabelledProps) {
  return (
    <div class="field">
      <label for={id} class={spoken === true ? 'spoken' : ''}>
        {label}
      </label>
      {children}
      <p class="problem" id={`${id}-problem`}>
        {showSafe(problem)}
      </p>
    </div>
  );
}

/** What says of a field in a `Labelled` that it has a problem. */
export const faultOf = (id: string, problem: string) =>
  problem === '' ? {} : { 'aria-invalid': true, 'aria-describedby': `${id}-problem` };

type DraftFieldProps = Omit<TextFieldProps, 'value' | 'onText'> & { draft: Signal<string>; draftKey: string };

export function DraftField({ draft, draftKey, ...rest }: DraftFieldProps) {
  const take = (text: string): void => {
    draft.value = text;
    keepDraft(draftKey, text);
  };
  return <TextField {...rest} value={draft.value} onText={take} />;
}

export type ReadJson = { value: JsonValue } | { problem: string };

export function readDraftJson(text: string): ReadJson {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { problem: `Invalid JSON: ${describeThrown(error)}. Put text in "quotes".` };
  }
}

export function jsonRows(text: string): number {
  return Math.min(16, Math.max(3, text.split('\n').length));
}

export function editableJson(value: JsonValue): string {
  return typeof value === 'string' ? JSON.stringify(value) : formatJson(value);
}

const PREFIX = 'agentchart.draft.';

/** The unsent text of a field. `key` names the field, such as `RUN/CALL/edit`. */
export function readDraft(key: string): string | null {
  return sessionStorage.getItem(PREFIX + key);
}

export function keepDraft(key: string, text: string): void {
  try {
    sessionStorage.setItem(PREFIX + key, text);
  } catch {
    // If the storage is full, the draft is not saved; the field still has its text.
  }
}

const namesOf = (key: string): string[] =>
  Object.keys(sessionStorage).filter(name => name.startsWith(PREFIX + key));

export const readDrafts = (key: string): string[] =>
  namesOf(key).map(name => sessionStorage.getItem(name) ?? '');

export const hasDrafts = (key: string): boolean => namesOf(key).length > 0;

export function dropDrafts(key: string): void {
  for (const name of namesOf(key)) sessionStorage.removeItem(name);
}

type CheckProps = { label: string; checked: boolean; onCheck(isOn: boolean): void; class?: string };

export function Check({ label, checked, onCheck, class: name = 'check' }: CheckProps) {
  return (
    <label class={name}>
      <input type="checkbox" checked={checked} onChange={event => onCheck(event.currentTarget.checked)} />{' '}
      {label}
    </label>
  );
}

export function Flag({ flag, ...rest }: { flag: Signal<boolean>; label: string; class?: string }) {
  return <Check {...rest} checked={flag.value} onCheck={isOn => (flag.value = isOn)} />;
}

type ChoiceProps = {
  value: string;
  options: readonly (string | readonly [value: string, name: string])[];
  onChoose(value: string): void;
  id?: string;
  name?: string;
  'aria-label'?: string;
};

export function Choice({ options, onChoose, ...rest }: ChoiceProps) {
  return (
    <select {...rest} onChange={event => onChoose(event.currentTarget.value)}>
      {options.map(option => {
        const [value, name] = typeof option === 'string' ? [option, option] : option;
        return (
          <option key={value} value={value}>
            {showSafe(name)}
          </option>
        );
      })}
    </select>
  );
}

/** `ask` returns what a press asks, or what is wrong with the value; `run` sends it at once. */
type Does<Value> =
  | { ask(value: Value): Confirmation | string }
  | { /** Resolves to a problem for the person, or `null`. */ run(value: Value): Promise<string | null> };

const asks = <Value,>(does: Does<Value>, value: Value): Confirmation | string =>
  'ask' in does ? does.ask(value) : { words: '', act: () => does.run(value) };

type TextFormProps = Pick<TextFieldProps, 'rows' | 'required'> & {
  /** The label of the button; `field` is the one of the text. */
  label: string;
  field: string;
  draftKey: string;
  start?: string;
  intro?: string;
  children?: ComponentChildren;
} & (({ json?: never } & Does<string>) | ({ json: true } & Does<JsonValue>));

/** A form with one text or JSON value. The caller drops the draft once it is accepted. */
export function TextForm(props: TextFormProps) {
  const { label, field, draftKey, start, intro, rows, required, json, children } = props;
  const draft = useDraft(draftKey, start);
  const ask = (): Confirmation | string => {
    if (!props.json) return asks(props, draft.value);
    const read = readDraftJson(draft.value);
    return 'value' in read ? asks(props, read.value) : read.problem;
  };
  const looks = json ? { rows: jsonRows(draft.value), mono: true } : omitUndefined({ rows, required });
  return (
    <Form label={label} ask={ask}>
      {intro && <p>{intro}</p>}
      <DraftField label={field} draft={draft} draftKey={draftKey} {...looks} />
      {children}
    </Form>
  );
}
