import { type Signal, useSignal } from '@preact/signals';
import { useId } from 'preact/hooks';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { showSafe } from '../render/format.ts';
import {
  Choice,
  editableJson,
  faultOf,
  jsonRows,
  Labelled,
  type ReadJson,
  readDraftJson,
} from './draft-field.tsx';

/** Objects in objects have fields down to this depth; what is deeper is JSON. */
const DEEPEST = 2;

export type FieldsProps = {
  schema: JsonObject;
  value: JsonObject;
  onValue(value: JsonObject): void;
  /** What is wrong, by the paths of the fields. */
  problems: Signal<ReadonlyMap<string, string>>;
  /** Of the members of an object that is asked for: why what was given before does not fit. They may all be left out. */
  faults?: Readonly<Record<string, string>> | undefined;
  path?: string;
  depth?: number;
};

/** A field of its kind for each member of an object's schema, and for each other member of the value. */
export function SchemaFields({
  schema,
  value,
  onValue,
  problems,
  faults,
  path = '',
  depth = 0,
}: FieldsProps) {
  const properties = isJsonObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  const names = [...new Set([...Object.keys(properties), ...Object.keys(value)])];
  return names.map(name => {
    const member = properties[name];
    const of = isJsonObject(member) ? member : {};
    const at = `${path}/${name}`;
    const own = value[name];
    const isRequired = required.includes(name);
    const label = labelOf(name, of, isRequired || faults !== undefined);
    const fault = faults?.[name] ?? '';
    const isFieldset = isJsonObject(of.properties) && !isEmptyObject(of) && depth < DEEPEST;
    const set = (next: JsonValue | undefined): void => {
      const { [name]: _, ...others } = value;
      // What had a value keeps its place.
      onValue(next === undefined ? others : { ...value, [name]: next });
    };
    if (isFieldset && (own === undefined || isJsonObject(own)))
      return (
        <fieldset key={name} class="schema-group">
          <legend>{label}</legend>
          {fault !== '' && <p class="problem">{showSafe(fault)}</p>}
          <SchemaFields
            schema={of}
            value={own ?? {}}
            onValue={next => set(Object.keys(next).length === 0 && !isRequired ? undefined : next)}
            problems={problems}
            path={at}
            depth={depth + 1}
          />
        </fieldset>
      );
    return (
      <Field
        key={name}
        label={label}
        fault={fault}
        schema={of}
        value={own}
        isRequired={isRequired}
        onValue={set}
        problems={problems}
        path={at}
      />
    );
  });
}

function labelOf(name: string, { title }: JsonObject, isRequired: boolean): string {
  return showSafe(`${typeof title === 'string' ? title : name}${isRequired ? '' : ' (optional)'}`);
}

type FieldProps = {
  label: string;
  fault: string;
  schema: JsonObject;
  value: JsonValue | undefined;
  isRequired: boolean;
  onValue(value: JsonValue | undefined): void;
  problems: Signal<ReadonlyMap<string, string>>;
  path: string;
};

function Field({ label, fault, schema, value, isRequired, onValue, problems, path }: FieldProps) {
  const id = useId();
  const kind = kindOf(schema, value);
  const text = useSignal(kind.write(value));
  const problem = problems.value.get(path) ?? fault;
  const take = (typed: string): void => {
    text.value = typed;
    const read = typed === '' && !(kind.isText && isRequired) ? undefined : kind.read(typed);
    const next = new Map(problems.peek());
    next.delete(path);
    if (read === undefined) {
      if (isRequired) next.set(path, 'Expected a value.');
      else onValue(undefined);
    } else if ('problem' in read) next.set(path, read.problem);
    else onValue(read.value);
    problems.value = next;
  };
  const shared = { id, value: text.value, ...faultOf(id, problem) };
  const typing = {
    ...shared,
    onInput: ({ currentTarget }: { currentTarget: { value: string } }) => take(currentTarget.value),
  };
  const { type, long, hint, bounds, choices } = kind;
  const unset = isRequired && value !== undefined ? [] : [['', 'not set'] as const];
  const draw = () => {
    if (choices !== undefined) return <Choice {...shared} options={[...unset, ...choices]} onChoose={take} />;
    // Preact's types want to know which one.
    if (long === undefined && !text.value.includes('\n'))
      return <input type={type as 'text'} {...bounds} {...typing} />;
    const looks = long === 'json' ? { class: 'mono', rows: jsonRows(text.value) } : { rows: 3 };
    return <textarea {...looks} {...typing} />;
  };
  return (
    <Labelled id={id} label={hint === undefined ? label : `${label} ${hint}`} problem={problem}>
      {draw()}
      {typeof schema.description === 'string' && <p class="muted hint">{showSafe(schema.description)}</p>}
    </Labelled>
  );
}

type Kind = {
  type: 'text' | 'number' | 'date' | 'datetime-local';
  /** A field of several lines. */
  long?: 'lines' | 'json';
  /** Empty is a value of its own. */
  isText?: true;
  hint?: string;
  bounds?: { min?: number; max?: number; step?: number | 'any' };
  choices?: readonly (readonly [value: string, name: string])[];
  write(value: JsonValue | undefined): string;
  read(typed: string): ReadJson;
};

/** The kind of field that a schema asks for; JSON if the value is of another kind. */
function kindOf(schema: JsonObject, value: JsonValue | undefined): Kind {
  const choices = choicesIn(schema);
  const writeJson = (given: JsonValue | undefined): string =>
    given === undefined ? '' : JSON.stringify(given);
  if (choices.length > 0) return { type: 'text', choices, write: writeJson, read: readDraftJson };
  const fits = (type: string): boolean => value === undefined || typeof value === type;
  const { type, format, items } = schema;
  if ((type === 'number' || type === 'integer') && fits('number'))
    return {
      type: 'number',
      bounds: boundsOf(schema),
      write: writeJson,
      read: typed => readNumber(typed, schema),
    };
  if (type === 'string' && fits('string')) {
    const write = (given: JsonValue | undefined): string => `${given ?? ''}`;
    if (format === 'date' && /^(\d{4}-\d\d-\d\d)?$/.test(write(value)))
      return { type: 'date', bounds: { step: 1 }, write, read: typed => ({ value: typed }) };
    if (format === 'date-time' && !Number.isNaN(Date.parse(write(value) || '2000-01-01')))
      return {
        type: 'datetime-local',
        bounds: { step: 1 },
        hint: '(local time)',
        write: writeMoment,
        read: readMoment,
      };
    return { type: 'text', isText: true, write, read: typed => readText(typed, schema) };
  }
  const isList = type === 'array' && isJsonObject(items) && items.type === 'string';
  if (
    isList &&
    (value === undefined ||
      (Array.isArray(value) && value.every(one => typeof one === 'string' && !one.includes('\n'))))
  )
    return {
      type: 'text',
      long: 'lines',
      hint: '(one a line)',
      write: given => (Array.isArray(given) ? given.join('\n') : ''),
      read: typed => ({ value: typed.split('\n').filter(line => line !== '') }),
    };
  return {
    type: 'text',
    long: 'json',
    hint: '(JSON)',
    write: given => (given === undefined ? '' : editableJson(given)),
    read: readDraftJson,
  };
}

function writeMoment(value: JsonValue | undefined): string {
  if (typeof value !== 'string' || value === '') return '';
  const at = new Date(value);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function readMoment(typed: string): ReadJson {
  const at = new Date(typed);
  return Number.isNaN(at.getTime())
    ? { problem: 'Expected a date and a time.' }
    : { value: at.toISOString() };
}

const isBound = (value: JsonValue | undefined): value is number =>
  typeof value === 'number' && Math.abs(value) < Number.MAX_SAFE_INTEGER;

function boundsOf({ type, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }: JsonObject) {
  const isWhole = type === 'integer';
  const above = isWhole && isBound(exclusiveMinimum) ? exclusiveMinimum + 1 : undefined;
  const below = isWhole && isBound(exclusiveMaximum) ? exclusiveMaximum - 1 : undefined;
  const step = isBound(multipleOf) ? multipleOf : undefined;
  return omitUndefined({
    min: isBound(minimum) ? minimum : above,
    max: isBound(maximum) ? maximum : below,
    step: step ?? (isWhole ? 1 : ('any' as const)),
  });
}

function readNumber(typed: string, schema: JsonObject): ReadJson {
  const value = Number(typed);
  const { min, max } = boundsOf(schema);
  if (!Number.isFinite(value)) return { problem: 'Expected a number.' };
  if (schema.type === 'integer' && !Number.isInteger(value)) return { problem: 'Expected a whole number.' };
  if (min !== undefined && value < min) return { problem: `Expected at least ${min}.` };
  if (max !== undefined && value > max) return { problem: `Expected at most ${max}.` };
  return { value };
}

function readText(typed: string, { minLength, maxLength }: JsonObject): ReadJson {
  if (isBound(minLength) && typed.length < minLength)
    return { problem: `Expected at least ${minLength} characters.` };
  if (isBound(maxLength) && typed.length > maxLength)
    return { problem: `Expected at most ${maxLength} characters.` };
  return { value: typed };
}

/** Whether the schema takes nothing but `{}`, as a question does that only asks whether something is done. */
function isEmptyObject({ properties, additionalProperties }: JsonObject): boolean {
  return additionalProperties === false && isJsonObject(properties) && Object.keys(properties).length === 0;
}

/** The values that the schema lists, as JSON, with their names. */
function choicesIn(schema: JsonObject): [value: string, name: string][] {
  const { type, enum: values, oneOf, anyOf } = schema;
  if (isEmptyObject(schema)) return [['{}', 'done']];
  const listed = [oneOf, anyOf].find(Array.isArray)?.map(one => (isJsonObject(one) ? one : {}));
  const titled = listed?.every(one => one.const !== undefined) ? listed : [];
  const plain = type === 'boolean' ? [true, false] : values;
  return [
    ...titled,
    ...(Array.isArray(plain) ? plain : []).map(value => ({ const: value, title: value })),
  ].map(one => {
    const value = JSON.stringify(one.const);
    return [value, typeof one.title === 'string' ? one.title : value];
  });
}
