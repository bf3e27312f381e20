import { beforeAll } from 'vitest';
import { forgetCalls } from '../../../engine/services/running-calls.ts';

/** Before each file of a shared worker: calls that the file before it abandoned are not running in this one. */
beforeAll(forgetCalls);
