import fc from 'fast-check';
import { SAMPLE_SEED } from './sample.ts';

/** The same random cases in each run. A failure prints its seed and path. */
fc.configureGlobal({ seed: SAMPLE_SEED });
