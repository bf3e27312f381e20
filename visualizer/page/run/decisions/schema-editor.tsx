import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { AgentView } from '../../../../protocol/agent-view.ts';
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '../../../../protocol/json.ts';
import { type RunView, requestServer, runPath } from '../../data/request.ts';
import { useRead } from '../../data/server-watch.ts';
import { showSafe } from '../../render/format.ts';
import {
  DraftField,
  editableJson,
  jsonRows,
  keepDraft,
  type ReadJson,
  readDraftJson,
  useDraft,
} from '../../ui/draft-field.tsx';
import { type FieldsProps, SchemaFields } from '../../ui/schema-fields.tsx';
import { Diff } from '../../ui/text.tsx';
import { type Confirmation, Form } from '../../ui/two-presses.tsx';

/** The schema of a tool's input, as its agent has it here; `null` if it is not known, or not one of an object. */
async function readToolSchema(runId: string, tool: string): Promise<{ schema: JsonObject | null }> {
  try {
    const { agent } = await requestServer<RunView>(runPath(runId));
    const { tools } = await requestServer<AgentView>(`/agents/${encodeURIComponent(agent)}`);
    const { inputSchema = {} } = tools.find(({ name }) => name === tool) ?? {};
    return { schema: isJsonObject(inputSchema.properties) ? inputSchema : null };
  } catch {
    return { schema: null };
  }
}

type EditorProps = {
  label: string;
  submit: string;
  /** The hint if the input was sent without a change. */
  unchanged: string;
  draftKey: string;
  input: JsonValue;
  /** What sending asks first; without it, one press sends. */
  words?(input: JsonValue): string;
  /** Sends the input. Resolves to a problem for the person, or `null`; the caller drops the draft. */
  send(input: JsonValue): Promise<string | null>;
};

const FIELDS = 'input, textarea, select';

type SchemaEditorProps = EditorProps & { runId: string; tool: string };

/** Edits an input in fields from its tool's schema, or as JSON; as JSON alone if the schema is not known. */
export function SchemaEditor({ runId, tool, ...editor }: SchemaEditorProps) {
  const { answer } = useRead(() => readToolSchema(runId, tool), [runId, tool], { once: true });
  const place = useRef<HTMLDivElement>(null);
  const { input, draftKey } = editor;
  const draft = useDraft(draftKey, editableJson(input));
  const isReady = answer !== null;
  useEffect(() => {
    // Not from a person who types elsewhere meanwhile.
    if (isReady && !document.activeElement?.matches(FIELDS))
      place.current?.querySelector<HTMLElement>(FIELDS)?.focus();
  }, [isReady]);
  return (
    <div ref={place} aria-busy={!isReady}>
      {answer !== null && (
        <BothWays {...editor} schema={isJsonObject(input) ? answer.schema : null} draft={draft} />
      )}
    </div>
  );
}

const WAYS = ['Fields', 'JSON'] as const;

type BothWaysProps = EditorProps & {
  /** Without one, there is only JSON. */
  schema: JsonObject | null;
  draft: Signal<string>;
  faults?: FieldsProps['faults'];
};

/**
 * The JSON is the draft; the fields read it when they are shown, and write it. With `faults`, what is typed is new, so there
 * are no changes to show.
 */
export function BothWays({
  label,
  submit,
  unchanged,
  draftKey,
  draft,
  input,
  words,
  send,
  schema,
  faults,
}: BothWaysProps) {
  const read = readDraftJson(draft.value);
  const value = 'value' in read && isJsonObject(read.value) ? read.value : null;
  const way = useSignal<(typeof WAYS)[number]>(value === null || schema === null ? 'JSON' : 'Fields');
  const problems = useSignal<ReadonlyMap<string, string>>(new Map());
  const ask = (): Confirmation | string => {
    const [wrong] = way.value === 'Fields' ? problems.value : [];
    if (wrong !== undefined) return `${wrong[0].slice(1)}: ${wrong[1]}`;
    if ('problem' in read) return '';
    const key = canonicalJson(read.value);
    if (key === canonicalJson(input)) return unchanged;
    return { words: words?.(read.value) ?? '', key, act: () => send(read.value) };
  };
  const take = (next: JsonValue): void => {
    draft.value = editableJson(next);
    keepDraft(draftKey, draft.value);
  };
  return (
    <Form label={submit} ask={ask}>
      {schema !== null && (
        <div class="tabs small" role="tablist" aria-label="Edit as">
          {WAYS.map(name => (
            <button
              key={name}
              type="button"
              role="tab"
              aria-selected={way.value === name}
              disabled={name === 'Fields' && value === null}
              onClick={() => {
                problems.value = new Map();
                way.value = name;
              }}
            >
              {name}
            </button>
          ))}
        </div>
      )}
      {way.value === 'Fields' && schema !== null && value !== null ? (
        <div class="schema-fields">
          <SchemaFields schema={schema} value={value} onValue={take} problems={problems} faults={faults} />
        </div>
      ) : (
        <DraftField label={label} draft={draft} draftKey={draftKey} rows={jsonRows(draft.value)} mono />
      )}
      {(faults === undefined || 'problem' in read) && <Changes before={input} now={read} />}
    </Form>
  );
}

function Changes({ before, now }: { before: JsonValue; now: ReadJson }) {
  return (
    <div aria-live="polite">
      {'problem' in now ? (
        <p class="problem">{showSafe(now.problem)}</p>
      ) : (
        <Diff before={JSON.stringify(before, null, 2)} after={JSON.stringify(now.value, null, 2)} />
      )}
    </div>
  );
}
