import type { StandardSchemaV1 } from '@standard-schema/spec';
import { messageOf } from '../protocol/error.ts';
import type { Validation } from '../protocol/tool.ts';

const SHOWN_ISSUES = 10;

/** Validates with any Standard Schema and never throws; the message lists the issues with their paths. */
export function validateWith(schema: StandardSchemaV1, value: unknown): Validation | Promise<Validation> {
  try {
    const result = schema['~standard'].validate(value);
    return 'then' in result
      ? Promise.resolve(result).then(toValidation).catch(toFailure)
      : toValidation(result);
  } catch (error) {
    return toFailure(error);
  }
}

function toValidation(result: StandardSchemaV1.Result<unknown>): Validation {
  if (!result.issues) return { valid: true, value: result.value };
  return { valid: false, message: describeIssues(result.issues) };
}

function toFailure(error: unknown): Validation {
  return { valid: false, message: `the schema failed to validate the value: ${messageOf(error)}` };
}

function describeIssues(issues: readonly StandardSchemaV1.Issue[]): string {
  if (issues.length === 0) return 'invalid; the schema gives no reason';
  const lines = issues.slice(0, SHOWN_ISSUES).map(describeIssue);
  if (issues.length > SHOWN_ISSUES) lines.push(`and ${issues.length - SHOWN_ISSUES} more`);
  return lines.join('; ');
}

function describeIssue(issue: StandardSchemaV1.Issue): string {
  const path = (issue.path ?? []).map(segment => (typeof segment === 'object' ? segment.key : segment));
  const message = issue.message.replace(/^Invalid input: /, '');
  return path.length === 0 ? message : `${formatPath(path)}: ${message}`;
}

function formatPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    return text === '' ? String(key) : `${text}.${String(key)}`;
  }, '');
}
