import type { JsonObject, JsonValue } from '../../../../protocol/json.ts';
import type { OpenQuestion } from '../../../../protocol/run-view.ts';
import { showSafe } from '../../render/format.ts';
import { DraftField, readDraftJson, useDraft } from '../../ui/draft-field.tsx';
import { type Confirmation, Form } from '../../ui/two-presses.tsx';
import type { AskFirst } from './decision-forms.tsx';
import { draftOf } from './open-decisions.tsx';

const FIELD = 'answer ';

/** A field for each question; what has no text stays open. */
export function AnswerForm({ call, question }: { call: OpenQuestion; question: AskFirst }) {
  const fields = call.questions.map(asked => {
    const draftKey = `${draftOf(call)}${FIELD}${asked.key}`;
    // biome-ignore lint/correctness/useHookAtTopLevel: the questions of a digest are always the same.
    return { asked, draftKey, draft: useDraft(draftKey) };
  });
  const ask = (): Confirmation | string => {
    const answers: Record<string, JsonValue> = {};
    for (const { asked, draft } of fields) {
      const text = draft.value.trim();
      if (text === '') continue;
      const read = takesText(asked.schema) ? { value: text } : readDraftJson(text);
      if ('problem' in read) return `${asked.key}: ${read.problem}`;
      answers[asked.key] = read.value;
    }
    if (Object.keys(answers).length === 0) return 'Answer at least one question.';
    return question(what => `Answer ${what}?`, { type: 'answers', answers }, answers);
  };
  return (
    <Form label="Answer" ask={ask}>
      {fields.map(({ asked: { key, message, schema, url, fault = '' }, ...drafts }) => (
        <DraftField
          key={key}
          {...drafts}
          label={`${showSafe(message)}${takesText(schema) ? '' : ' (JSON)'}`}
          placeholder={url === undefined ? '' : showSafe(url)}
          problem={fault}
          options={optionsIn(schema)}
        />
      ))}
    </Form>
  );
}

function takesText({ type, enum: choices }: JsonObject): boolean {
  return type === 'string' || (Array.isArray(choices) && choices.every(one => typeof one === 'string'));
}

function optionsIn({ type, enum: choices }: JsonObject): string[] {
  if (Array.isArray(choices))
    return choices.map(one => (typeof one === 'string' ? one : JSON.stringify(one)));
  return type === 'boolean' ? ['true', 'false'] : [];
}
